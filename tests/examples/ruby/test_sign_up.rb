require "minitest/autorun"
require_relative "inbox"

class SignUp < Minitest::Test
  def test_the_mail_opens_the_shop
    Inbox.open do |inbox|
      post("/sign-up", email: inbox.address)
      assert_equal "You are in.\n", post("/confirm", email: inbox.address, code: inbox.code)
      assert_equal "You are in.\n", Net::HTTP.get(URI(inbox.link))
    end
  end

  def post(path, form) = Net::HTTP.post_form(URI(ENV.fetch("SHOP_URL") + path), form).body
end
