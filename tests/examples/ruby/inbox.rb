require "json"
require "net/http"

# A fresh private inbox, deleted after the block.
class Inbox
  API = "#{ENV.fetch("TMPMAILD_URL")}/api/v1/addresses"
  attr_reader :address

  def self.open
    inbox = new
    yield inbox
  ensure
    inbox&.delete
  end

  def initialize
    created = ask(Net::HTTP::Post, "", '{"private": true}')
    @address, @token = created.values_at("address", "token")
  end

  def code = wait_for("code").dig("codes", 0, "value")
  def link = wait_for("link").dig("links", 0, "href")
  def delete = ask(Net::HTTP::Delete, "/#{address}")

  private

  def wait_for(has)
    found = ask(Net::HTTP::Get, "/#{address}/messages?wait=30&explain=true&has=#{has}")
    found["messages"].first or raise "no #{has} for #{address}: #{found["reason"]}"
  end

  def ask(method, path, body = nil)
    request = method.new(URI(API + path), "Authorization" => "Bearer #{@token}", "Content-Type" => "application/json")
    answer = Net::HTTP.start(request.uri.host, request.uri.port) { |http| http.request(request, body) }
    answer.value # raises unless 2xx
    answer.body && JSON.parse(answer.body)
  end
end
