#include "runtime/coordinator/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& line) {
  llvm::Expected<AgentMessage> message = ParseAgentMessage(line);
  return message ? "" : TakeFailure(message.takeError()).message;
}

constexpr const char* kJoin =
    R"({"type":"join","epoch":0,"task":"t","node":"n","host":"h","port":5,"least":1,"most":2})";

TEST(MessagesTest, AJoin) {
  const AgentMessage message = llvm::cantFail(ParseAgentMessage(kJoin));
  EXPECT_EQ(message.kind, AgentMessage::Kind::kJoin);
  EXPECT_EQ(message.task + message.node + message.host, "tnh");
  EXPECT_EQ(message.port, 5);
  EXPECT_EQ(message.most, 2);
}

TEST(MessagesTest, Refusals) {
  for (const auto& [line, words] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", "it ends where an object should stand"},
           {"GET / HTTP/1.1", "byte 0"},
           {R"({"type":"hop","epoch":1})", "`hop` is not a message of an agent"},
           {R"({"type":"beat"})", "it has no `epoch`"},
           {R"({"type":"beat","epoch":-1})", "it is -1, and must be a whole number from 0"},
           {R"({"type":"beat","epoch":1,"stap":1})", "`stap` is not a known key; is `step` meant?"},
           {R"({"type":"join","epoch":1})", "a node must say its `task`"},
           {R"({"type":"failed","epoch":1})", "which process"},
           {R"({"type":"beat","epoch":1,"phase":")" + std::string("\xff") + "\"}", "UTF-8"},
           {std::string(kMostLineBytes, '['), "byte 0"}}) {
    EXPECT_THAT(Refusal(line), HasSubstr(words)) << line.substr(0, 80);
  }
}

// Under sanitizers: one byte of a message is another one, or its end is missing.
TEST(MessagesTest, DamagedLines) {
  std::mt19937 random(1);
  const std::string line = kJoin;
  for (std::size_t i = 0; i < 20'000; ++i) {
    std::string damaged = line.substr(0, 1 + random() % line.size());
    damaged[random() % damaged.size()] = static_cast<char>(random());
    Refusal(damaged);
    EXPECT_FALSE(ParseRequest(damaged));
  }
}

TEST(MessagesTest, RequestsOfAPerson) {
  EXPECT_EQ(ParseRequest(R"({"type":"drain","node":"n"})")->node, "n");
  EXPECT_FALSE(ParseRequest(kJoin));
  EXPECT_FALSE(ParseRequest(R"({"type":"status","nod":"n"})"));
}

}  // namespace
}  // namespace ucp
