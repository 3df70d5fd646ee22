#include "runtime/command_line/event_log.h"

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <sstream>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

TEST(EventLogTest, EveryLineIsAnObjectAndTimeGoesOn) {
  const ScratchFolder folder;
  const std::string path = folder.Path("events");
  EventLog log(TextSink(path, std::fopen(path.c_str(), "w")));
  log.Add("begin", llvm::json::Object{{"text", "two\nlines"}});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 50; ++i) log.Add("count", llvm::json::Object{{"thread", t}, {"number", i}});
      });
    }
  }
  ASSERT_FALSE(static_cast<bool>(log.Close()));
  const std::string text = ReadTestFile(folder.Path("events"));
  EXPECT_TRUE(text.starts_with(EventLog::kBeginning));
  std::istringstream lines(text);
  double last = 0;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    ASSERT_TRUE(static_cast<bool>(value)) << line;
    const llvm::json::Object& object = *value->getAsObject();
    EXPECT_EQ(object.getString("event")->str(), count == 0 ? "begin" : "count");
    EXPECT_GE(*object.getNumber("at"), last);
    last = *object.getNumber("at");
  }
  EXPECT_EQ(count, 201);
}

}  // namespace
}  // namespace ucp
