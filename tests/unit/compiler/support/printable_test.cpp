#include "compiler/support/printable.h"

#include <gtest/gtest.h>

namespace ucp {
namespace {

TEST(Printable, TextStaysAsItIs) {
  for (const char* text : {"", "layers.{0-3}.weight", "größe", "層.重み", "a b", "🙂", "\xc2\xa0"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(Printable, WhatATerminalObeysIsShown) {
  EXPECT_EQ(Printable("a\nb\x1b[31mc\x7f"), "a\\nb\\x1b[31mc\\x7f");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("a\u202eb"), "a\\u{202e}b");               // Right-to-left override.
  EXPECT_EQ(Printable("\u2066x\u2069"), "\\u{2066}x\\u{2069}");  // An isolate.
  EXPECT_EQ(Printable("w\u200beight"), "w\\u{200b}eight");       // A blank without width.
  EXPECT_EQ(Printable("\ufeffx"), "\\u{feff}x");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\u{9b}31m");  // A control sequence in one character.
}

TEST(Printable, BytesThatAreNoTextAreShown) {
  EXPECT_EQ(Printable("a\xff"
                      "b"),
            "a\\xffb");
  EXPECT_EQ(Printable("\xe2\x80"), "\\xe2\\x80");           // Cut off.
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");           // Longer than it need be.
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // Half of a pair.
}

std::string PrintableJson(std::string json) {
  std::string printable = TakePrintableJson(json);
  EXPECT_EQ(json, "");
  return printable;
}

TEST(Printable, JsonEscapesWhatATerminalObeys) {
  for (const char* text : {"", "{\"größe\": [1, \"層.重み 🙂\"]}\n"}) EXPECT_EQ(PrintableJson(text), text);
  EXPECT_EQ(PrintableJson("[\"a\u202eb\xc2\x9b\x7f\"]"), "[\"a\\u202eb\\u009b\\u007f\"]");
  EXPECT_EQ(PrintableJson("\"\U000e0041\""), "\"\\udb40\\udc41\"");  // A tag, in two units.
}

TEST(Printable, JsonInPieces) {
  const std::string whole = "\"x\u202ey🙂z\U000e0041\"";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    std::string json = whole.substr(0, cut);
    std::string printable = TakePrintableJson(json);
    EXPECT_LE(json.size(), 3U);
    json += whole.substr(cut);
    printable += TakePrintableJson(json);
    EXPECT_EQ(printable, "\"x\\u202ey🙂z\\udb40\\udc41\"") << cut;
  }
}

}  // namespace
}  // namespace ucp
