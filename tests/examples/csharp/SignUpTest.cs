using System;
using System.Collections.Generic;
using System.Net.Http;
using System.Threading.Tasks;
using Xunit;

public class SignUpTest : IDisposable
{
    static readonly string Shop = Environment.GetEnvironmentVariable("SHOP_URL");
    readonly HttpClient http = new HttpClient();
    readonly Inbox inbox = new Inbox();

    [Fact]
    public async Task TheMailOpensTheShop()
    {
        await Post("/sign-up", new Dictionary<string, string> { ["email"] = inbox.Address });

        var form = new Dictionary<string, string> { ["email"] = inbox.Address, ["code"] = inbox.Code() };
        Assert.Equal("You are in.\n", await Post("/confirm", form));

        Assert.Equal("You are in.\n", await http.GetStringAsync(inbox.Link()));
    }

    async Task<string> Post(string path, Dictionary<string, string> form)
    {
        var answer = await http.PostAsync(Shop + path, new FormUrlEncodedContent(form));
        return await answer.Content.ReadAsStringAsync();
    }

    public void Dispose() => inbox.Dispose();
}
