#include "compiler/command_line/option_names.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ucp {
namespace {

// The tables of names go by position, so a row that is missing would shift all that follow.
TEST(OptionNames, AreThoseOfTheSameOptionInBothTables) {
  for (int number = 0; number < kUserOptions; ++number) {
    const auto option = static_cast<UserOption>(number);
    std::string name = OptionName(option);
    if (option == UserOption::kSets || option == UserOption::kDropStates) name.pop_back();  // Given once for each.
    std::replace(name.begin(), name.end(), '_', '-');
    EXPECT_EQ(CommandLineOption(option, std::nullopt), "--" + name);
  }
  EXPECT_EQ(OptionName(UserOption::kUnused), "unused");
  EXPECT_EQ(OptionName(UserOption::kDropStates, "exp_avg"), "drop_states exp_avg");
}

TEST(OptionNames, ValuesAreWordsOfAShell) {
  EXPECT_EQ(CommandLineOption(UserOption::kSets, "layers=4"), "--set layers=4");
  EXPECT_EQ(CommandLineOption(UserOption::kSets, R"(has "bias"=true)"), R"(--set 'has "bias"=true')");
  EXPECT_EQ(CommandLineOption(UserOption::kTag, "it's"), R"(--tag 'it'\''s')");
  EXPECT_EQ(CommandLineOption(UserOption::kTag, ""), "--tag ''");
  EXPECT_EQ(CommandLineOption(UserOption::kKeepOpaque, "my.Class"), "--keep-opaque my.Class");
}

}  // namespace
}  // namespace ucp
