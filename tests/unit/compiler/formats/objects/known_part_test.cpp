// The part of a value that is left when objects that are not known go.
#include "compiler/formats/objects/known_part.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/formats/pytorch/values/value_access.h"

namespace ucp::objects {
namespace {

using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::MakeTuple;
using pytorch::ValuePtr;
using testing::ElementsAre;

ValuePtr Command() {
  pytorch::Call call;
  call.callable = pytorch::MakeGlobal("posix", "system");
  call.arguments = MakeTuple({MakeText("ls")});
  return pytorch::MakeCall(std::move(call));
}

struct Left {
  explicit Left(const ValuePtr& whole) {
    const KnownObjects known;
    KnownPart part(known);
    value = part.Of(whole, "state");
    for (const UnknownEntry& entry : part.TakeUnknown()) unknown.push_back(entry.path + " " + entry.calls);
  }
  ValuePtr value;
  std::vector<std::string> unknown;
};

TEST(KnownPartTest, WhatIsKnownStaysTheSameObject) {
  const ValuePtr whole = MakeDict({{MakeText("a"), MakeList({MakeInteger(1)})}});
  const Left left(whole);
  EXPECT_EQ(left.value, whole);
  EXPECT_TRUE(left.unknown.empty());
}

TEST(KnownPartTest, TheSmallestEntryGoes) {
  const ValuePtr inner = MakeDict({{MakeText("x"), Command()}, {MakeText("y"), MakeInteger(2)}});
  const Left left(MakeDict({{MakeText("a"), MakeInteger(1)}, {MakeText("b"), inner}}));
  ASSERT_NE(left.value, nullptr);
  EXPECT_EQ(pytorch::Find(*left.value, "a")->As<std::int64_t>() != nullptr, true);
  const ValuePtr b = pytorch::Find(*left.value, "b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(pytorch::Find(*b, "x"), nullptr);
  EXPECT_NE(pytorch::Find(*b, "y"), nullptr);
  EXPECT_THAT(left.unknown, ElementsAre("state.b.x posix.system('ls')"));
}

TEST(KnownPartTest, AListGoesWithItsEntrySincePlacesHaveAMeaning) {
  const ValuePtr list = MakeList({MakeInteger(1), Command(), MakeInteger(3)});
  const Left left(MakeDict({{MakeText("a"), list}, {MakeText("b"), MakeInteger(1)}}));
  EXPECT_EQ(pytorch::Find(*left.value, "a"), nullptr);
  EXPECT_NE(pytorch::Find(*left.value, "b"), nullptr);
  EXPECT_THAT(left.unknown, ElementsAre("state.a posix.system('ls')"));
}

TEST(KnownPartTest, NothingIsLeftOfTheObjectItself) {
  const Left left(Command());
  EXPECT_EQ(left.value, nullptr);
  EXPECT_THAT(left.unknown, ElementsAre("state posix.system('ls')"));
}

TEST(KnownPartTest, ASharedObjectIsReportedWhereverItsEntryGoes) {
  const ValuePtr command = Command();
  const Left left(MakeDict({{MakeText("a"), command}, {MakeText("b"), command}}));
  EXPECT_THAT(left.unknown, ElementsAre("state.a posix.system('ls')", "state.b posix.system('ls')"));
}

}  // namespace
}  // namespace ucp::objects
