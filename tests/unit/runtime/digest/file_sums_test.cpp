#include "runtime/digest/file_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/unit/runtime/digest/random_bytes.h"
#include "tests/unit/runtime/digest/slow_sum.h"

namespace ucp {
namespace {

// A file as it is written down: filled up to a whole number of units.
std::string SlowDigest(std::vector<std::byte> bytes) {
  const std::size_t size = bytes.size();
  bytes.resize((size + 7) / 8 * 8);
  return FileDigest({DigestVersion::kKeyed, SlowUnits(0, 8, bytes)}, size);
}

struct Piece {
  std::size_t file = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// All bytes of the files, in pieces of up to `most` bytes and in any order.
std::vector<Piece> CutAnyhow(const std::vector<std::vector<std::byte>>& files, std::size_t most,
                             std::mt19937_64& random) {
  std::vector<Piece> pieces;
  for (std::size_t file = 0; file < files.size(); ++file) {
    for (std::size_t begin = 0; begin < files[file].size();) {
      const std::size_t end = std::min(files[file].size(), begin + 1 + random() % most);
      pieces.push_back({file, begin, end});
      begin = end;
    }
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

std::vector<std::uint64_t> SizesOf(const std::vector<std::vector<std::byte>>& files) {
  std::vector<std::uint64_t> sizes;
  for (const auto& file : files) sizes.push_back(file.size());
  return sizes;
}

std::vector<std::vector<std::byte>> SomeFiles(std::mt19937_64& random) {
  std::vector<std::vector<std::byte>> files;
  for (std::size_t size : {0UL, 1UL, 7UL, 8UL, 9UL, 15UL, 1000UL, 1024UL, 4097UL, 9000 + random() % 8}) {
    files.push_back(RandomBytes(size, random));
  }
  return files;
}

TEST(FileSumsTest, NoCutAndNoOrderMatters) {
  std::mt19937_64 random(1);
  for (std::size_t most : {1UL, 2UL, 3UL, 7UL, 9UL, 20UL, 500UL, 100000UL}) {
    const auto files = SomeFiles(random);
    FileSums sums(SizesOf(files));
    for (const Piece& piece : CutAnyhow(files, most, random)) {
      sums.Add(piece.file, piece.begin, std::span(files[piece.file]).subspan(piece.begin, piece.end - piece.begin));
    }
    EXPECT_TRUE(sums.Parts().empty());
    for (std::size_t file = 0; file < files.size(); ++file) EXPECT_EQ(sums.Digest(file), SlowDigest(files[file]));
  }
}

TEST(FileSumsTest, ThreadsAddWhatTheyHave) {
  std::mt19937_64 random(2);
  const auto files = SomeFiles(random);
  const std::vector<Piece> pieces = CutAnyhow(files, 13, random);
  FileSums sums(SizesOf(files));
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t i = thread; i < pieces.size(); i += 4) {
        const Piece& piece = pieces[i];
        sums.Add(piece.file, piece.begin, std::span(files[piece.file]).subspan(piece.begin, piece.end - piece.begin));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t file = 0; file < files.size(); ++file) EXPECT_EQ(sums.Digest(file), SlowDigest(files[file]));
}

// The sums of several ranks come together as if one rank had read all.
TEST(FileSumsTest, PartsOfUnitsComeTogether) {
  std::mt19937_64 random(3);
  const auto files = SomeFiles(random);
  std::array<std::unique_ptr<FileSums>, 3> of_rank;
  for (auto& sums : of_rank) sums = std::make_unique<FileSums>(SizesOf(files));
  for (const Piece& piece : CutAnyhow(files, 11, random)) {
    of_rank[random() % 3]->Add(piece.file, piece.begin,
                               std::span(files[piece.file]).subspan(piece.begin, piece.end - piece.begin));
  }
  std::size_t parts = 0;
  for (std::size_t rank = 1; rank < 3; ++rank) {
    for (std::size_t file = 0; file < files.size(); ++file) of_rank[0]->AddSum(file, of_rank[rank]->Sum(file));
    for (const PartOfUnit& part : of_rank[rank]->Parts()) EXPECT_TRUE(of_rank[0]->AddPart(part));
    parts += of_rank[rank]->Parts().size();
  }
  EXPECT_GT(parts, 100U);
  EXPECT_TRUE(of_rank[0]->Parts().empty());
  for (std::size_t file = 0; file < files.size(); ++file) EXPECT_EQ(of_rank[0]->Digest(file), SlowDigest(files[file]));
}

TEST(FileSumsTest, PaddingIsZeros) {
  std::mt19937_64 random(4);
  std::vector<std::byte> bytes = RandomBytes(20001, random);
  std::fill(bytes.begin() + 13, bytes.begin() + 9999, std::byte{0});
  FileSums sums({bytes.size()});
  sums.Add(0, 0, std::span(bytes).first(13));
  sums.AddZeros(0, 13, 9999);
  sums.Add(0, 9999, std::span(bytes).subspan(9999));
  EXPECT_EQ(sums.Digest(0), SlowDigest(bytes));
}

TEST(FileSumsTest, PartsThatCannotBeAreRefused) {
  FileSums sums({20});
  EXPECT_TRUE(sums.AddPart({0, 1, 0x12, 0xFF}));
  for (const PartOfUnit& wrong : std::vector<PartOfUnit>{
           {1, 0, 0, 0xFF}, {0, 3, 0, 0xFF}, {0, 2, 0, 0xFF00000000}, {0, 0, 0x100, 0xFF}, {0, 1, 0x12, 0xFF}}) {
    EXPECT_FALSE(sums.AddPart(wrong)) << wrong.file << " " << wrong.unit;
  }
  EXPECT_TRUE(sums.AddPart({0, 2, 0x12345678, 0xFFFFFFFF}));  // The last unit has four bytes.
  EXPECT_EQ(sums.Parts().size(), 1U);
}

TEST(FileSumsTest, VersionOneIsWhatItWas) {
  std::mt19937_64 random(5);
  const auto files = SomeFiles(random);
  FileSums sums(SizesOf(files), DigestVersion::kLinear);
  for (const Piece& piece : CutAnyhow(files, 37, random)) {
    sums.Add(piece.file, piece.begin, std::span(files[piece.file]).subspan(piece.begin, piece.end - piece.begin));
  }
  for (std::size_t file = 0; file < files.size(); ++file) {
    EXPECT_EQ(sums.Sum(file).lanes, SlowLinear(0, files[file]));
  }
}

}  // namespace
}  // namespace ucp
