#include "compiler/support/json_text.h"

#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

std::string Read(const std::string& json) {
  auto text = JsonReader(json).ReadText();
  return text ? *text : TakeFailure(text.takeError()).message;
}

TEST(JsonTextTest, EscapesMeanWhatTheyShould) {
  EXPECT_EQ(Read(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(Read(R"("\u0041\u00e4\u20AC\ud83d\ude00")"), "A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(Read(R"("\u00g0")"), "at byte 3 of it four hexadecimal digits should stand");
  EXPECT_EQ(Read(R"("\ud83dx")"), "at byte 7 of it the second half of a character should stand");
  EXPECT_EQ(Read(R"("\ude00")"), "at byte 7 of it the second half of a character should stand");
  EXPECT_EQ(Read(R"("\u12)"), "at byte 3 of it four hexadecimal digits should stand");
  EXPECT_EQ(Read("\"abc"), "it ends where the end of a text should stand");
}

TEST(JsonTextTest, WhatIsQuotedComesBack) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  EXPECT_EQ(Read(QuoteJson(all)), all);
  EXPECT_EQ(QuoteJson("\x01\b\f"), "\"\\u0001\\b\\f\"");
}

// As the reference writer has it, one character after the other.
TEST(JsonTextTest, OnlyWhatMustBeIsEscaped) {
  const std::string plain = " !#$%&'()*+,-./09:;<=>?@AZ[]^_`az{|}~\x7F\xC3\xA4\xE2\x82\xAC";
  EXPECT_EQ(QuoteJson(plain), '"' + plain + '"');
  EXPECT_EQ(QuoteJson("\"a\\\"\tb\n\r\x1F"), R"("\"a\\\"\tb\n\r\u001f")");
  EXPECT_EQ(QuoteJson(""), "\"\"");
  std::string json = "[";
  AppendJson(json, "\\");
  EXPECT_EQ(json, R"(["\\")");
}

TEST(JsonTextTest, ATextHasNoBareControlCharacters) {
  EXPECT_EQ(Read("\"ab\nc\""), "at byte 3 of it no control character should stand");
  EXPECT_EQ(Read("\"ab\\tc"), "it ends where the end of a text should stand");
}

}  // namespace
}  // namespace ucp
