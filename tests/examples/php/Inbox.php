<?php
/** A fresh private inbox; `delete` it in `tearDown`. */
final class Inbox
{
    public string $address, $token = '';

    public function __construct()
    {
        ['address' => $this->address, 'token' => $this->token] = $this->ask('POST', '', '{"private": true}');
    }

    public function code(): string
    {
        return $this->waitFor('code')['codes'][0]['value'];
    }

    public function link(): string
    {
        return $this->waitFor('link')['links'][0]['href'];
    }

    public function delete(): void
    {
        $this->ask('DELETE', "/$this->address");
    }

    private function waitFor(string $has): array
    {
        $found = $this->ask('GET', "/$this->address/messages?wait=30&explain=true&has=$has");
        return $found['messages'][0] ?? throw new RuntimeException("no $has for $this->address: $found[reason]");
    }

    private function ask(string $method, string $path, string $content = ''): ?array
    {
        $header = "Authorization: Bearer $this->token\r\nContent-Type: application/json";
        $http = ['method' => $method, 'content' => $content, 'header' => $header];
        $url = getenv('TMPMAILD_URL') . "/api/v1/addresses$path";
        return json_decode(file_get_contents($url, false, stream_context_create(['http' => $http])), true);
    }
}
