// The structural test for ambiguous patterns must be sound: if two patterns print the same name for any values of the
// dims, it says so. Here all values up to 3 are tried, by an expansion of the test's own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/check/check_spec.h"
#include "compiler/parse/parse.h"

namespace ucp {
namespace {

// A piece of a name: how it is written, and what it prints. Counters get a name of their own by position.
struct Piece {
  std::string written;
  int factor_n = 0;  // A number prints factor_n * n + constant, and up to count_n * n + count - 1 more.
  int constant = 0;
  int count_n = 0;
  bool number = false;
  bool capture = false;
};

const std::vector<Piece>& Pieces() {
  static const std::vector<Piece> pieces = {
      {"a"},
      {"."},
      {"1"},
      {"12"},
      {"0"},
      {"{n}", 1, 0, 0, true, false},
      {"{n + 1}", 1, 1, 0, true, false},
      {"{2 * n}", 2, 0, 0, true, false},
      {"{#: n}", 0, 0, 1, true, true},
      {"{# + 1: n}", 0, 1, 1, true, true},
      {"{# + n: n}", 1, 0, 1, true, true},
      {"{# + 2 * n: 2 * n}", 2, 0, 2, true, true},
  };
  return pieces;
}

using Choice = std::vector<std::size_t>;

std::string Written(const Choice& choice) {
  std::string text;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    std::string piece = Pieces()[choice[i]].written;
    if (auto hash = piece.find('#'); hash != std::string::npos) piece.replace(hash, 1, fmt::format("i{}", i));
    text += piece;
  }
  return text;
}

std::vector<std::string> Names(const Choice& choice, int n) {
  std::vector<std::string> names = {""};
  for (std::size_t index : choice) {
    const Piece& piece = Pieces()[index];
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      if (!piece.number) longer.push_back(name + piece.written);
      int first = piece.factor_n * n + piece.constant;
      int count = piece.number ? (piece.capture ? piece.count_n * n : 1) : 0;
      for (int i = 0; i < count; ++i) longer.push_back(name + std::to_string(first + i));
    }
    names = std::move(longer);
  }
  return names;
}

bool ReallyMeet(const Choice& a, const Choice& b) {
  for (int n = 0; n <= 3; ++n) {
    std::multiset<std::string> all;
    for (const std::string& name : Names(a, n)) all.insert(name);
    for (const std::string& name : Names(b, n)) {
      if (all.contains(name)) return true;
    }
  }
  return false;
}

bool SaysAmbiguous(const Choice& a, const Choice& b) {
  std::string text = fmt::format("ucp 1\ndim n\nlayout l {{ \"{}\" [n] \"{}\" [n] }}\n", Written(a), Written(b));
  auto source = Source::FromText("random.ucp", text);
  DiagnosticSink sink;
  auto file = ParseSpec(*source, sink);
  EXPECT_TRUE(file) << text;
  if (file) CheckSpec(*file, *source, sink);
  return sink.has_errors();
}

TEST(Ambiguity, NeverMissesACommonName) {
  std::mt19937 random(20261121);
  int met = 0;
  int silent = 0;
  for (int round = 0; round < 4000; ++round) {
    auto pick = [&] {
      Choice choice(1 + random() % 4);
      for (std::size_t& index : choice) index = random() % Pieces().size();
      return choice;
    };
    Choice a = pick();
    Choice b = pick();
    bool meet = ReallyMeet(a, b);
    bool says = SaysAmbiguous(a, b);
    met += meet;
    silent += !says;
    if (meet) {
      EXPECT_TRUE(says) << Written(a) << " and " << Written(b);
    }
  }
  EXPECT_GT(met, 100);      // The test tests something,
  EXPECT_GT(silent, 1000);  // and the answer is not always yes.
}

}  // namespace
}  // namespace ucp
