// Models with random layouts, tried on themselves: factors in any order, counted in names or stacked, fused or apart.
#include "compiler/trial/try_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/parse/parse.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

using Names = std::vector<std::string>;

CheckedSpec CheckedModel(const std::string& text) {
  Source source = llvm::cantFail(Source::FromText("model.ucp", text));
  DiagnosticSink sink;
  auto tree = ParseSpec(source, sink);
  auto spec = tree ? CheckSpec(*tree, source, sink) : std::nullopt;
  if (!spec) ADD_FAILURE() << text << RenderText(source, sink);
  return spec ? *spec : CheckedSpec{};
}

Names Shuffled(Names names, Random& random) {
  std::ranges::shuffle(names, random);
  return names;
}

// The names as dimensions, cut at random places: "a * b, c".
Names DimsOf(const Names& factors, Random& random) {
  Names dims;
  for (const std::string& factor : factors) {
    if (!dims.empty() && Pick(random, 0, 1) == 0) {
      dims.back() += " * " + factor;
    } else {
      dims.push_back(factor);
    }
  }
  return dims;
}

std::string Product(const Names& factors, const std::string& otherwise) {
  return factors.empty() ? otherwise : fmt::format("{}", fmt::join(factors, " * "));
}

// A model of the parts p [a, b, c], q [a, c, d] and r [b, d].
constexpr const char* kModel =
    "ucp 1\nmesh tp\ndim a\ndim b\ndim c\ndim d\nmodel m {{ p [a, b * c] q [c, d, a] r [b, d] }}\n{}";

// A dimension that the ranks cut, inside of its factors as well.
std::string Cut(const std::string& dim, Random& random) {
  switch (Pick(random, 0, 3)) {
    case 0:
      return fmt::format("({})@tp(chunk)", dim);
    case 1:
      return fmt::format("({})@tp(spread)", dim);
    case 2:
      return fmt::format("pad({}, 2 * tp)@tp", dim);
    default:
      return dim;
  }
}

void CutOne(Names& dims, Random& random) {
  if (dims.empty()) return;
  std::string& dim = dims[static_cast<std::size_t>(Pick(random, 0, std::ssize(dims) - 1))];
  dim = Cut(dim, random);
}

std::string NameWith(const std::string& name, const Names& counted) {
  std::string text = name;
  for (const std::string& factor : counted) text += fmt::format(".{{i_{0}: {0}}}", factor);
  return text;
}

// Two parts of one fused tensor have the same offset in every layout.
std::string Offset(const std::string& part, Random& random) {
  if (part != "r" || Pick(random, 0, 1) == 0) return "";
  return fmt::format(" offset({})", Pick(random, -2, 2));
}

std::string Alone(const std::string& part, const Names& factors, Random& random) {
  Names rest = Shuffled(factors, random);
  const Names names(rest.begin(), rest.begin() + Pick(random, 0, std::min<std::int64_t>(2, std::ssize(rest) - 1)));
  rest.erase(rest.begin(), rest.begin() + std::ssize(names));
  Names dims = DimsOf(rest, random);
  CutOne(dims, random);
  return fmt::format("  \"{}\" = {} [{}]{}\n", NameWith(part, names), part, fmt::join(dims, ", "),
                     Offset(part, random));
}

// p and q have a and c in common, each of which is counted, a factor around the sum, or another dimension.
std::string Fused(Random& random) {
  Names counted;
  Names around;
  Names other;
  for (const char* factor : {"a", "c"})
    (Pick(random, 0, 2) == 0 ? counted : Pick(random, 0, 1) == 0 ? around : other).push_back(factor);
  const bool cuts_terms = Pick(random, 0, 2) == 0;
  const char* b = cuts_terms ? "b@tp(spread)" : "b";
  const char* d = cuts_terms ? "d@tp(chunk)" : "d";
  std::string sum = fmt::format("(p: {} + q: {})", b, d);
  if (Pick(random, 0, 1) == 0) sum = fmt::format("(q: {} + p: {})", d, b);
  around.insert(around.begin() + Pick(random, 0, std::ssize(around)), sum);
  Names dims = {Product(around, "1")};
  for (const std::string& dim : DimsOf(other, random)) dims.push_back(dim);
  if (!cuts_terms) CutOne(dims, random);
  return fmt::format("  \"{}\" = [{}]\n", NameWith("pq", counted), fmt::join(Shuffled(dims, random), ", "));
}

std::string RandomModel(Random& random) {
  std::string layouts;
  for (int i = 0; i < 3; ++i) {
    layouts += fmt::format("layout l{} of m {{\n", i);
    layouts += Pick(random, 0, 1) == 0 ? Fused(random)
                                       : Alone("p", {"a", "b", "c"}, random) + Alone("q", {"c", "d", "a"}, random);
    layouts += Alone("r", {"b", "d"}, random) + "}\n";
  }
  return fmt::format(kModel, layouts);
}

TEST(TryLayoutsTest, RandomLayoutsOfAModelMeetInEveryElement) {
  Random random(30);
  std::int64_t conversions = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string text = RandomModel(random);
    SCOPED_TRACE(text);
    Settings set;
    for (const char* dim : {"a", "b", "c", "d"}) set[dim] = {Pick(random, 1, 4)};
    const TrialReport report = TryLayouts(CheckedModel(text), {.set = set, .seed = 1, .seconds = 0});
    ASSERT_EQ(report.failure, "");
    conversions += report.conversions;
  }
  EXPECT_EQ(conversions, 150 * 3 * 2 * (4 + 4));  // Four whole ones for each pair, and one for each of four meshes.
}

TEST(TryLayoutsTest, OneTensorIsMovedWithOneOffset) {
  const std::string text =
      "ucp 1\ndim n\nmodel m { p [n] q [n] }\nlayout one of m { \"pq\" = [p: n + q: n] }\n"
      "layout two of m { \"p\" = p offset(-1) \"q\" = q }\n";
  const TrialReport report =
      TryLayouts(CheckedModel(text), {.set = {{"n", {std::int64_t{3}}}}, .seed = 1, .seconds = 0});
  EXPECT_EQ(report.failure,
            "from `one` to `two`: the elements of `pq` go to `p`, with offset(-1) by model.ucp:5, and to `q`, with "
            "offset(0) by model.ucp:5; all elements of one tensor are moved with one offset");
}

TEST(TryLayoutsTest, ALayoutThatLacksElementsIsNamed) {
  const std::string text =
      "ucp 1\ndim n\nmodel m { p [n] }\nlayout one of m { \"p.{i: n}\" = p }\n"
      "layout two of m { block \"x.{i: n}\" { when i < 2 { \"p\" = p } } }\n";
  const TrialReport report =
      TryLayouts(CheckedModel(text), {.set = {{"n", {std::int64_t{3}}}}, .seed = 1, .seconds = 0});
  EXPECT_EQ(report.failure,
            "from `one` to `two`: `p.2` has 1 elements of the part `p` that the layout `two` does not store");
}

}  // namespace
}  // namespace ucp
