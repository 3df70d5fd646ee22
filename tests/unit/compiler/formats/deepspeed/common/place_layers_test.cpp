#include "compiler/formats/deepspeed/common/place_layers.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "compiler/support/error.h"

namespace ucp {
namespace {

using Counts = std::vector<std::int64_t>;
using How = std::variant<DealMethod, Counts>;

// Layer 0 is an embedding, 1 to 4 are blocks, 5 is a norm; the head, tied to the embedding, has no file.
PipelineLayers Gpt() {
  PipelineLayers layers;
  layers.prefixes = {{0, "tied_modules.embed."}, {1, "1."}, {2, "2."}, {3, "3."}, {4, "4."}, {5, "5."}};
  return layers;
}
const std::map<std::string, std::int64_t> kWeights = {
    {"tied_modules.embed.", 24}, {"1.", 18}, {"2.", 18}, {"3.", 18}, {"4.", 18}, {"5.", 1}};

// "0:0 1:0 embed:0,2" of a source with these numbers of layers with a file on each stage.
std::string Place(const PipelineLayers& layers, std::map<std::string, std::int64_t> weights,
                  std::map<std::string, std::set<std::int64_t>> held, std::int64_t source_stages, std::int64_t stages,
                  const How& how) {
  auto placed = PlaceLayers({layers, std::move(weights), std::move(held), source_stages}, stages, how);
  if (!placed) return TakeFailure(placed.takeError()).message;
  std::string text;
  for (const auto& [prefix, on] : placed->of_prefix) text += fmt::format("{}{} ", prefix, fmt::join(on, ","));
  return text + fmt::format("({})", fmt::join(placed->layers, "+"));
}

std::map<std::string, std::set<std::int64_t>> OnOneStage(const PipelineLayers& layers) {
  std::map<std::string, std::set<std::int64_t>> held;
  for (const auto& [layer, prefix] : layers.prefixes) held[prefix] = {0};
  return held;
}

std::string PlaceFromOne(const PipelineLayers& layers, std::int64_t stages, const How& how) {
  std::map<std::string, std::int64_t> weights;
  for (const auto& [layer, prefix] : layers.prefixes) weights[prefix] = kWeights.at(prefix);
  return Place(layers, weights, OnOneStage(layers), 1, stages, how);
}

PipelineLayers Untied() {
  PipelineLayers layers;
  layers.prefixes = {{1, "1."}, {2, "2."}, {3, "3."}, {4, "4."}, {5, "5."}};
  return layers;
}

TEST(PlaceLayers, CountsSayIt) {
  EXPECT_EQ(PlaceFromOne(Untied(), 2, Counts{3, 3}), "1.0 2.0 3.1 4.1 5.1 (3+3)");
  EXPECT_EQ(PlaceFromOne(Untied(), 3, Counts{2, 3, 2}), "1.0 2.1 3.1 4.1 5.2 (2+3+1)");
  EXPECT_EQ(PlaceFromOne(Untied(), 2, Counts{3, 2}),
            "pp=3+2 has 5 layers, and the source has the file of layer 5, which makes 6");
}

TEST(PlaceLayers, AnotherLayerWithoutFileBehindTheLastChangesNothingForWeights) {
  EXPECT_EQ(PlaceFromOne(Untied(), 2, DealMethod::kParameters), "1.0 2.0 3.1 4.1 5.1 (3+3)");
  EXPECT_NE(PlaceFromOne(Untied(), 2, DealMethod::kUniform).find("how many layers each stage has"), std::string::npos);
}

// It is tied, so some layer without a file uses it: the only place there is.
TEST(PlaceLayers, TheOnlyPlaceOfATiedLayer) {
  EXPECT_EQ(PlaceFromOne(Gpt(), 2, Counts{4, 3}), "1.0 2.0 3.0 4.1 5.1 tied_modules.embed.0,1 (4+2)");
  EXPECT_EQ(PlaceFromOne(Gpt(), 2, Counts{7, 0}), "1.0 2.0 3.0 4.0 5.0 tied_modules.embed.0 (6+0)");
  EXPECT_NE(PlaceFromOne(Gpt(), 2, Counts{3, 3}).find("no pipeline of 6 layers"), std::string::npos);
}

// Of two places behind the last file, one on each of the last two stages.
TEST(PlaceLayers, TwoPlacesOfATiedLayer) {
  EXPECT_NE(PlaceFromOne(Gpt(), 3, Counts{3, 4, 1}).find("is not known"), std::string::npos);
  EXPECT_EQ(PlaceFromOne(Gpt(), 3, Counts{3, 3, 2}), "1.0 2.0 3.1 4.1 5.1 tied_modules.embed.0,2 (3+3+0)");
}

// The stages of the source say that the second layer that uses it is on the last.
TEST(PlaceLayers, TheSourcesStagesDecide) {
  PipelineLayers layers = Gpt();
  layers.prefixes.erase(2);
  std::map<std::string, std::int64_t> weights = kWeights;
  std::map<std::string, std::set<std::int64_t>> held = {
      {"tied_modules.embed.", {0, 1}}, {"1.", {0}}, {"3.", {0}}, {"4.", {1}}, {"5.", {1}}};
  const Counts counts = {4, 3};
  EXPECT_NE(Place(layers, weights, held, 1, 2, counts).find("is not known"), std::string::npos);
  EXPECT_EQ(Place(layers, weights, held, 2, 2, counts), "1.0 3.0 4.1 5.1 tied_modules.embed.0,1 (4+2)");
}

}  // namespace
}  // namespace ucp
