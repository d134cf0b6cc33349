using System;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Runtime.Serialization.Json;
using System.Text;

/// <summary>A fresh private inbox; Dispose deletes it.</summary>
public sealed class Inbox : IDisposable
{
    public class Answer { public string address = "", token = "", reason = ""; public Message[] messages = { }; }
    public class Message { public Found[] codes = { }, links = { }; }
    public class Found { public string value = "", href = ""; }

    static readonly string Api = Environment.GetEnvironmentVariable("TMPMAILD_URL") + "/api/v1/addresses";
    static readonly HttpClient Http = new HttpClient();
    readonly Answer created;

    public Inbox() { created = Ask(HttpMethod.Post, "", "{\"private\": true}"); }
    public string Address => created.address;
    public string Code() => WaitFor("code").codes[0].value;
    public string Link() => WaitFor("link").links[0].href;
    public void Dispose() => Ask(HttpMethod.Delete, "/" + Address);

    Message WaitFor(string has)
    {
        var found = Ask(HttpMethod.Get, $"/{Address}/messages?wait=30&explain=true&has={has}");
        return found.messages.Length > 0 ? found.messages[0] : throw new Exception($"no {has} for {Address}: {found.reason}");
    }

    Answer Ask(HttpMethod method, string path, string json = "")
    {
        var request = new HttpRequestMessage(method, Api + path);
        if (json != "") request.Content = new StringContent(json, Encoding.UTF8, "application/json");
        if (created != null) request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", created.token);
        var response = Http.SendAsync(request).Result.EnsureSuccessStatusCode();
        var read = new DataContractJsonSerializer(typeof(Answer));
        return method == HttpMethod.Delete ? created : (Answer)read.ReadObject(response.Content.ReadAsStreamAsync().Result);
    }
}
