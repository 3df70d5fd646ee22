#include "runtime/command_line/timeline.h"

#include <gtest/gtest.h>
#include <llvm/Support/JSON.h>

#include <barrier>
#include <map>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "tests/unit/runtime/storage/scratch_folder.h"

namespace ucp {
namespace {

using Clock = std::chrono::steady_clock;

class Recorded {
 public:
  Timeline Begin(std::uint64_t most_events = 1000) {
    const std::string path = folder_.Path("trace");
    return Timeline(TextSink(path, std::fopen(path.c_str(), "w")), most_events);
  }
  // The events; that there is a JSON array of them is tested on the way.
  llvm::json::Array End(Timeline& timeline) {
    EXPECT_FALSE(static_cast<bool>(timeline.Close()));
    const std::string text = ReadTestFile(folder_.Path("trace"));
    EXPECT_TRUE(text.starts_with(Timeline::kBeginning));
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
    if (value) return *value->getAsArray();
    ADD_FAILURE() << llvm::toString(value.takeError()) << text;
    return {};
  }

 private:
  ScratchFolder folder_;
};

TEST(TimelineTest, ThreadsAtATimeHaveRowsOfTheirOwnAndLaterOnesTheSame) {
  Recorded recorded;
  Timeline timeline = recorded.Begin();
  for (int round = 0; round < 3; ++round) {
    std::barrier together(4);
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const Clock::time_point begin = Clock::now();
        timeline.Add({"read", "a \"file\"", 4096, begin, begin + std::chrono::milliseconds(2)});
        together.arrive_and_wait();
      });
    }
  }
  const Clock::time_point begin = Clock::now();
  timeline.AddPhase({"move", {}, 0, begin, begin + std::chrono::seconds(1)});
  std::map<std::int64_t, int> events_of_row;
  std::map<std::int64_t, std::string> names;
  for (const llvm::json::Value& value : recorded.End(timeline)) {
    const llvm::json::Object& event = *value.getAsObject();
    const std::string kind = event.getString("ph")->str();
    if (kind == "M") {
      if (auto row = event.getInteger("tid")) names[*row] = event.getObject("args")->getString("name")->str();
      continue;
    }
    ASSERT_EQ(kind, "X");
    ++events_of_row[*event.getInteger("tid")];
    EXPECT_GE(*event.getNumber("ts"), 0);
    if (*event.getInteger("tid") == 0) {
      EXPECT_EQ(event.getString("name")->str(), "move");
      EXPECT_EQ(*event.getNumber("dur"), 1e6);
      continue;
    }
    EXPECT_EQ(*event.getNumber("dur"), 2000);
    EXPECT_EQ(event.getObject("args")->getString("file")->str(), "a \"file\"");
    EXPECT_EQ(*event.getObject("args")->getInteger("bytes"), 4096);
  }
  EXPECT_EQ(events_of_row, (std::map<std::int64_t, int>{{0, 1}, {1, 3}, {2, 3}, {3, 3}, {4, 3}}));
  EXPECT_EQ(names, (std::map<std::int64_t, std::string>{
                       {0, "phases"}, {1, "thread 0"}, {2, "thread 1"}, {3, "thread 2"}, {4, "thread 3"}}));
}

TEST(TimelineTest, WhatIsTooMuchIsCounted) {
  Recorded recorded;
  Timeline timeline = recorded.Begin(10);
  for (int i = 0; i < 25; ++i) timeline.Add({"read", {}, 0, Clock::now(), Clock::now()});
  int events = 0;
  std::int64_t left_out = 0;
  for (const llvm::json::Value& value : recorded.End(timeline)) {
    const llvm::json::Object& event = *value.getAsObject();
    if (event.getString("ph")->str() == "X") ++events;
    if (event.getString("name")->str() == "ucprun") left_out = *event.getObject("args")->getInteger("left_out");
  }
  EXPECT_EQ(events, 10);
  EXPECT_EQ(left_out, 15);
}

}  // namespace
}  // namespace ucp
