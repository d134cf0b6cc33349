<?php

use PHPUnit\Framework\TestCase;

require_once __DIR__ . '/Inbox.php';

final class SignUpTest extends TestCase
{
    private Inbox $inbox;

    protected function setUp(): void
    {
        $this->inbox = new Inbox();
    }

    protected function tearDown(): void
    {
        $this->inbox->delete();
    }

    public function testTheMailOpensTheShop(): void
    {
        $email = $this->inbox->address;
        $this->post('/sign-up', ['email' => $email]);
        $this->assertSame("You are in.\n", $this->post('/confirm', ['email' => $email, 'code' => $this->inbox->code()]));
        $this->assertSame("You are in.\n", file_get_contents($this->inbox->link()));
    }

    private function post(string $path, array $form): string
    {
        $header = 'Content-Type: application/x-www-form-urlencoded';
        $http = ['method' => 'POST', 'header' => $header, 'content' => http_build_query($form)];
        return file_get_contents(getenv('SHOP_URL') . $path, false, stream_context_create(['http' => $http]));
    }
}
