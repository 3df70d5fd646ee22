#include "compiler/formats/loose_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucp {
namespace {

// `a` of 5 elements, three of padding behind it, and `b` of 4.
std::vector<SteppedPiece> Vector() { return {{0, "a", "[0..5]", 0, 5, 0}, {1, "b", "[0..4]", 0, 4, 8}}; }

std::string Pieces(const SteppedElements& stepped) {
  std::string text = std::to_string(stepped.sizes.front()) + ":";
  for (const SteppedPiece& piece : stepped.pieces) {
    text += " " + piece.tensor + std::to_string(piece.begin) + "-" + std::to_string(piece.end) + "@" +
            std::to_string(piece.place);
  }
  return text;
}

TEST(LooseStates, PartsOfALongVector) {
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 4, 0)), "4: a0-4@0");
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 4, 1)), "4: a4-5@0");
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 4, 2)), "4: b0-4@0");
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 10, 0)), "10: a0-5@0 b0-2@8");
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 10, 1)), "10: b2-4@0");
}

TEST(LooseStates, PartsOfEachTensor) {
  const std::vector<SteppedPiece> tensors = {{0, "a", "[0..5]", 0, 5, 0}, {1, "b", "[0..1]", 0, 1, 2}};
  EXPECT_EQ(Pieces(PartOfEach(tensors, 3, 4, 0)), "3: a0-2@0 b0-1@2");
  EXPECT_EQ(Pieces(PartOfEach(tensors, 3, 4, 1)), "3: a2-4@0");
  EXPECT_EQ(Pieces(PartOfEach(tensors, 3, 4, 2)), "3: a4-5@0");
}

TEST(LooseStates, PaddingAloneIsTheNumberedPartOfItsVector) {
  EXPECT_EQ(Pieces(PartOfVector(Vector(), 12, 1)), "12: a0-0@1");
  EXPECT_NE(KeyOf(PartOfVector(Vector(), 12, 1)), KeyOf(PartOfVector(Vector(), 12, 2)));
  EXPECT_EQ(ToString(PartOfVector(Vector(), 12, 1)), "[12] of padding, part 1 of what begins with `a`");
}

TEST(LooseStates, KeysTellElementsAndPlaces) {
  const SteppedElements stepped = PartOfVector(Vector(), 10, 0);
  EXPECT_EQ(ToString(stepped), "[10] with `a`[0, 5) to `b`[0, 2)");
  std::vector<SteppedElements> others(7, stepped);
  others[0].sizes = {2, 5};
  others[1].pieces[1].place = 7;
  others[2].pieces[1].end = 3;
  others[3].pieces[0].begin = 1;
  others[4].pieces[0].tensor = "c";
  others[5].pieces[0].held = "[5..10]";
  others[6].pieces.pop_back();
  for (const SteppedElements& other : others) EXPECT_NE(KeyOf(other), KeyOf(stepped)) << Pieces(other);
  SteppedElements elsewhere = stepped;
  elsewhere.pieces[0].shard = 7;  // Another rank's.
  EXPECT_EQ(KeyOf(elsewhere), KeyOf(stepped));
}

}  // namespace
}  // namespace ucp
