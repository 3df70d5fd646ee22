#include "compiler/formats/megatron/ranks/old_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

using ::testing::HasSubstr;

TEST(OldModels, HaveOtherNames) {
  EXPECT_EQ(NameInCore("language_model.encoder.layers.3.self_attention.query_key_value.bias"),
            "decoder.layers.3.self_attention.linear_qkv.bias");
  EXPECT_EQ(NameInCore("language_model.transformer.layers.0.attention.dense.weight"),
            "decoder.layers.0.self_attention.linear_proj.weight");
  EXPECT_EQ(NameInCore("language_model.transformer.final_layernorm.bias"), "decoder.final_layernorm.bias");
  EXPECT_EQ(NameInCore("word_embeddings_for_head.weight"), "output_layer.weight");
  for (const char* unknown : {"language_model.encoder.layers.attention.dense.weight", "language_model.encoder.",
                              "language_model.encoder.layers.0.inter_attention.dense.weight", "lm_head.bias", ""}) {
    EXPECT_EQ(NameInCore(unknown), std::nullopt) << unknown;
  }
}

// Two tensor-parallel ranks of a layer with four heads of two rows, and three columns.
struct Queries {
  std::vector<LocalTensor> tensors = {2, {"decoder.layers.0.self_attention.linear_qkv.weight", {}}};
  WholeModel model;
  std::map<std::string, Fact> facts = {{"args.num_attention_heads", Fact{FactValue{std::int64_t{4}}, "a.pt"}}};

  Queries() {
    WholeTensor& whole = model.tensors.emplace_back();
    whole.entry.key = "decoder.layers.self_attention.linear_qkv.weight";
    whole.entry.shape = {1, 24, 3};
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      LocalTensor& tensor = tensors[static_cast<std::size_t>(rank)];
      tensor.place.sizes = {12, 3};
      tensor.place.elements = 36;
      PlacedBox box;
      box.offsets = {0, 12 * rank, 0};
      box.sizes = {1, 12, 3};
      box.tensor = &tensor;
      whole.boxes.push_back(box);
    }
  }
};

// Each row of the whole, and the row of the rank's tensor that holds it, by the view of the rows in the version.
TEST(OldModels, HaveRowsInAnotherOrder) {
  for (const double version : {0.0, 1.0}) {
    Queries queries;
    llvm::cantFail(OrderRows(version, Arguments(queries.facts), queries.model));
    std::set<std::int64_t> seen;
    for (const PlacedBox& box : queries.model.tensors[0].boxes) {
      const std::int64_t rank = box.tensor == &queries.tensors[1] ? 1 : 0;
      const std::int64_t step = box.strides.empty() ? 3 : box.strides[0];
      for (std::int64_t i = 0; i < box.sizes[1]; ++i) {
        const std::int64_t row = box.offsets[1] + i;
        const std::int64_t head = row % 12 / 6;
        const std::int64_t part = row % 6 / 2;
        const std::int64_t of_head = row % 2;
        const std::int64_t stored = version == 0 ? (part * 2 + head) * 2 + of_head : (head * 2 + of_head) * 3 + part;
        EXPECT_EQ(box.begin + i * step, stored * 3) << version << " " << row;
        EXPECT_EQ(row / 12, rank);
        EXPECT_TRUE(seen.insert(row).second);
      }
    }
    EXPECT_EQ(seen.size(), 24u);
  }
}

TEST(OldModels, HaveHeadsThatTheRanksShare) {
  const auto refusal_of = [](std::int64_t heads) {
    Queries queries;
    queries.facts["args.num_attention_heads"] = Fact{FactValue{heads}, "a.pt"};
    return TakeFailure(OrderRows(0, Arguments(queries.facts), queries.model)).message;
  };
  EXPECT_THAT(refusal_of(3), HasSubstr("of [12, 3] is not of the 3 heads of `args.num_attention_heads`"));
  EXPECT_THAT(refusal_of(std::int64_t{1} << 62), HasSubstr("is not of the 4611686018427387904 heads"));
  EXPECT_THAT(refusal_of(-4), HasSubstr("is not of the -4 heads"));
}

// The order of later versions is that of Megatron Core.
TEST(OldModels, OfLaterVersionsKeepTheirRows) {
  Queries queries;
  llvm::cantFail(OrderRows(2, Arguments(queries.facts), queries.model));
  EXPECT_EQ(queries.model.tensors[0].boxes.size(), 2u);
}

}  // namespace
}  // namespace ucp::megatron
