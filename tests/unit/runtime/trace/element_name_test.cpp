#include "runtime/trace/element_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using testing::HasSubstr;

ElementName Parsed(const char* text) {
  llvm::Expected<ElementName> name = ParseElementName(text);
  if (name) return *name;
  ADD_FAILURE() << text << ": " << TakeFailure(name.takeError()).message;
  return {};
}

TEST(ElementNameTest, HasATensorAnIndexAndPerhapsAState) {
  EXPECT_EQ(Parsed("a.b.weight[17,204]"), (ElementName{"a.b.weight", {17, 204}, ""}));
  EXPECT_EQ(Parsed("a.b.weight[ 17 , 204 ].exp_avg"), (ElementName{"a.b.weight", {17, 204}, "exp_avg"}));
  EXPECT_EQ(Parsed("scale[]"), (ElementName{"scale", {}, ""}));
  EXPECT_EQ(Parsed("a[0].weight[3]"), (ElementName{"a[0].weight", {3}, ""}));
}

TEST(ElementNameTest, AnythingElseIsRefused) {
  for (const char* text : {"", "a", "[1]", "a]1[", "a[1", "a1]", "a[-1]", "a[1,]", "a[,1]", "a[1 2]", "a[x]", "a[1]x",
                           "a[1].", "a[99999999999999999999]"}) {
    llvm::Expected<ElementName> name = ParseElementName(text);
    ASSERT_FALSE(static_cast<bool>(name)) << text;
    EXPECT_THAT(TakeFailure(name.takeError()).message, HasSubstr("names no element")) << text;
  }
}

TEST(ElementNameTest, AnIndexLiesInTheShape) {
  EXPECT_FALSE(static_cast<bool>(CheckIndex(Parsed("a[5,0]"), {6, 1})));
  EXPECT_FALSE(static_cast<bool>(CheckIndex(Parsed("a[]"), {})));
  for (const char* text : {"a[6,0]", "a[5,1]", "a[5]", "a[]", "a[5,0,0]"}) {
    llvm::Error error = CheckIndex(Parsed(text), {6, 1});
    ASSERT_TRUE(static_cast<bool>(error)) << text;
    EXPECT_THAT(TakeFailure(std::move(error)).message, HasSubstr("tensor `a` has the shape [6, 1]")) << text;
  }
}

}  // namespace
}  // namespace ucp
