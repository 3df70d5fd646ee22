// Saves of plain memory, read back by the library's own loads. That PyTorch reads what a C++ job saves is for
// tests/python/test_library.py to say.
#include "ucp/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <optional>

#include "tests/unit/runtime/library/job_of_threads.h"
#include "tests/unit/runtime/library/thrown.h"
#include "ucp/load_into.h"

namespace ucp {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

using Numbers = std::vector<float>;

Numbers From(float first, std::size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TensorToSave Matrix(const std::string& name, const Numbers& numbers, std::vector<std::int64_t> shape) {
  return {.path = {"model", name}, .shape = std::move(shape), .memory = std::as_bytes(std::span(numbers))};
}

// All of a tensor, as it was saved.
Numbers Loaded(const std::string& path, const std::string& name, std::vector<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t length : shape) count *= static_cast<std::size_t>(length);
  Numbers numbers(count);
  const std::vector<TensorToFill> wanted = {
      {.tensor = name, .shape = std::move(shape), .memory = std::as_writable_bytes(std::span(numbers))}};
  LoadInto({.path = path}, wanted, {}, /*all_tensors=*/false);
  return numbers;
}

class SaverTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ucp-saver-test-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ / name; }

  fs::path folder_;
};

TEST_F(SaverTest, TheStateOfTheCallIsSavedWhileItChanges) {
  Numbers numbers = From(1, 12);
  const StateToSave state = {.tensors = {Matrix("w", numbers, {3, 4})}, .values = {{.path = {"step"}, .value = 7}}};
  Saver saver(state, "dcp");
  EXPECT_THAT(saver.PlanAsJson(), HasSubstr("\"target_format\""));
  const Saving first = saver.Save(Path("first"), state);
  saver.WaitForStaging();
  EXPECT_TRUE(first.staged.is_done());
  for (float& number : numbers) number = -number;
  const Saving second = saver.Save(Path("second"), state);
  first.durable.Wait();
  EXPECT_EQ(Loaded(Path("first"), "w", {3, 4}), From(1, 12));
  EXPECT_THAT(second.ReportAsJson(), HasSubstr("\"bytes_written\""));
  EXPECT_TRUE(second.durable.is_done());
  EXPECT_EQ(Loaded(Path("second"), "w", {3, 4}), numbers);
  saver.Close();
}

TEST_F(SaverTest, OneIsStagedWhileOneIsWritten) {
  Numbers numbers = From(0, 12);
  const StateToSave state = {.tensors = {Matrix("w", numbers, {3, 4})}};
  Saver saver(state, "dcp", {.staging = 2});
  std::vector<Saving> savings;
  for (int number = 0; number < 6; ++number) {
    numbers.front() = static_cast<float>(number);
    savings.push_back(saver.Save(Path(std::to_string(number)), state));
    saver.WaitForStaging();
  }
  for (const Saving& saving : savings) saving.durable.Wait();
  for (int number = 0; number < 6; ++number) {
    numbers.front() = static_cast<float>(number);
    EXPECT_EQ(Loaded(Path(std::to_string(number)), "w", {3, 4}), numbers);
  }
}

TEST_F(SaverTest, LessMemoryThanTheStateHas) {
  Numbers numbers = From(0, 48);
  StateToSave state;
  for (std::size_t row = 0; row < 3; ++row) {
    TensorToSave tensor = Matrix("w" + std::to_string(row), numbers, {16});
    tensor.memory = tensor.memory.subspan(64 * row, 64);
    state.tensors.push_back(tensor);
  }
  std::string sentence;
  EXPECT_EQ(KindOf([&] { Saver(state, "dcp", {.staging_bytes = 63}); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence,
            "rank 0 stages 64 B at once for `model.w0`, and may stage 63 B at a time; allow 64 bytes or more");
  EXPECT_EQ(KindOf([&] { Saver(state, "dcp", {.staging = 2, .staging_bytes = 64}); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "staging is 1 where staging_bytes bounds it, not 2");
  Saver saver(state, "dcp", {.staging_bytes = 64});
  EXPECT_THAT(saver.PlanAsJson(), HasSubstr("\"waves\":3"));
  const Saving saving = saver.Save(Path("waves"), state);
  EXPECT_TRUE(saving.staged.is_done());
  for (float& number : numbers) number = -number;
  saving.durable.Wait();
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(Loaded(Path("waves"), "w" + std::to_string(row), {16}), From(static_cast<float>(16 * row), 16));
  }
  const Saving failing = saver.Save(Path("missing") + "/folder", state);  // Its error is its own.
  EXPECT_EQ(KindOf([&] { failing.durable.Wait(); }, sentence), ErrorKind::kUsage);
  EXPECT_THAT(sentence, HasSubstr("there is no folder"));
}

TEST_F(SaverTest, TensorsThatHaveMovedAndOnesThatAreNewAreSaved) {
  const Numbers numbers = From(1, 6);
  Saver saver({.tensors = {Matrix("w", numbers, {6})}}, "dcp");
  const Numbers moved = From(11, 6);
  saver.Save(Path("moved"), {.tensors = {Matrix("w", moved, {6})}}).durable.Wait();
  EXPECT_EQ(Loaded(Path("moved"), "w", {6}), moved);
  saver.Save(Path("more"), {.tensors = {Matrix("w", numbers, {6}), Matrix("v", moved, {2, 3})}}).durable.Wait();
  EXPECT_EQ(Loaded(Path("more"), "w", {6}), numbers);
  EXPECT_EQ(Loaded(Path("more"), "v", {2, 3}), moved);
}

TEST_F(SaverTest, StridesAreFollowed) {
  const Numbers numbers = From(0, 12);  // Of 4 rows, of which this is the transposed matrix.
  TensorToSave turned = Matrix("w", numbers, {3, 4});
  turned.strides = {1, 3};
  Save({.tensors = {turned}}, Path("turned"), "dcp");
  EXPECT_EQ(Loaded(Path("turned"), "w", {3, 4}), Numbers({0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
}

TEST_F(SaverTest, OwnersAreKeptUntilTheSaveIsOver) {
  auto numbers = std::make_shared<Numbers>(From(5, 4));
  const std::weak_ptr<Numbers> watched = numbers;
  TensorToSave tensor = Matrix("w", *numbers, {4});
  tensor.owner = std::move(numbers);
  StateToSave state = {.tensors = {tensor}};
  tensor = {};
  Saver saver(state, "dcp");
  const Saving saving = saver.Save(Path("kept"), state);
  state = {};
  saving.durable.Wait();
  EXPECT_EQ(Loaded(Path("kept"), "w", {4}), From(5, 4));
  saver.Close();
  EXPECT_TRUE(watched.expired());
}

// Two ranks hold a column of every two, and both hold the other tensor, whose replicas are compared.
TEST_F(SaverTest, RanksSaveTheirParts) {
  RunJob(2, [&](Ranks& ranks) {
    const auto rank = static_cast<std::int64_t>(ranks.rank());
    Numbers columns;
    for (int row = 0; row < 3; ++row) {
      for (const int column : {0, 2}) columns.push_back(static_cast<float>(10 * row + column + rank));
    }
    const Numbers same = From(3, 2);
    TensorToSave part = Matrix("w", columns, {3, 4});
    part.holds = {{{0, 3}}, {{rank, rank + 1}, {rank + 2, rank + 3}}};
    const StateToSave state = {.tensors = {part, Matrix("v", same, {2})}};
    Saver saver(state, "dcp", {.ranks = &ranks, .timeout_seconds = 60, .verify_replicas = true});
    saver.Save(Path("both"), state).durable.Wait();
    saver.Close();
  });
  EXPECT_EQ(Loaded(Path("both"), "w", {3, 4}), Numbers({0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}));
  EXPECT_EQ(Loaded(Path("both"), "v", {2}), From(3, 2));
}

TEST_F(SaverTest, OldOnesAreRemoved) {
  const Numbers numbers = From(1, 4);
  const StateToSave state = {.tensors = {Matrix("w", numbers, {4})}};
  Saver saver(state, "safetensors", {.keep = 2});
  for (const char* name : {"one", "two", "three"}) saver.Save(Path(name), state).durable.Wait();
  saver.Close();
  EXPECT_FALSE(fs::exists(Path("one")));
  EXPECT_TRUE(fs::exists(Path("two")) && fs::exists(Path("three")));
}

TEST_F(SaverTest, WhatDoesNotFitIsRefused) {
  const Numbers numbers = From(1, 12);
  const auto refused = [&](const std::function<void(TensorToSave&)>& change) {
    TensorToSave tensor = Matrix("w", numbers, {3, 4});
    change(tensor);
    std::string sentence;
    EXPECT_EQ(KindOf([&] { Saver({.tensors = {tensor}}, "dcp"); }, sentence), ErrorKind::kUsage);
    return sentence;
  };
  EXPECT_EQ(refused([](TensorToSave& one) { one.shape = {3, 5}; }),
            "what is held of `model.w` takes 60 bytes, and its memory has 48");
  EXPECT_EQ(refused([](TensorToSave& one) { one.strides = {4, 2}; }),
            "what is held of `model.w` takes 60 bytes, and its memory has 48");
  EXPECT_EQ(refused([](TensorToSave& one) { one.strides = {-4, 1}; }),
            "`model.w` has the stride -4; they are 0 or more");
  EXPECT_EQ(refused([](TensorToSave& one) { one.holds = {{{0, 3}}, {{2, 5}}}; }),
            "`model.w` holds the positions 2..5 of a dimension of length 4; they must lie in it, and increase");
  EXPECT_EQ(refused([](TensorToSave& one) { one.holds = {{{0, 3}}}; }),
            "`model.w` has 2 dimensions, and `holds` has 1");
  EXPECT_EQ(refused([](TensorToSave& one) { one.dtype = "float31"; }),
            "`model.w` has numbers of the unknown kind `float31`; kinds are named as PyTorch's");
  EXPECT_EQ(refused([](TensorToSave& one) { one.path = {}; }), "an entry of the state has no path");
  std::string sentence;
  const TensorToSave once = Matrix("w", numbers, {3, 4});
  EXPECT_EQ(KindOf([&] { Saver({.tensors = {once, once}}, "dcp"); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "two entries of the state have the key `model.w`");
  const std::int64_t much = std::int64_t{1} << 62;
  EXPECT_THAT(refused([&](TensorToSave& one) { one.shape = {much, much}; }), HasSubstr("and its memory has 48"));
}

TEST_F(SaverTest, SettingsThatNobodyCanSaveWithAreRefused) {
  const Numbers numbers = From(1, 4);
  const StateToSave state = {.tensors = {Matrix("w", numbers, {4})}};
  const auto refused = [&](ErrorKind kind, const SaveSettings& settings, const std::string& to = "dcp") {
    std::string sentence;
    EXPECT_EQ(KindOf([&] { Saver(state, to, settings); }, sentence), kind);
    return sentence;
  };
  EXPECT_EQ(refused(ErrorKind::kUsage, {.nice = 20}), "nice is a number from 0 to 19, not 20");
  EXPECT_EQ(refused(ErrorKind::kUsage, {.staging = 3}), "staging is a number from 1 to 2, not 3");
  EXPECT_THAT(refused(ErrorKind::kUsage, {.timeout_seconds = 0}), HasSubstr("timeout_seconds is above 0"));
  EXPECT_THAT(refused(ErrorKind::kUsage, {.threads = 300}), HasSubstr("from 1 to 256"));
  EXPECT_THAT(refused(ErrorKind::kUsage, {.source = {.path = "x"}}), HasSubstr("a save's source is the job"));
  EXPECT_EQ(refused(ErrorKind::kIo, {.program = "/nowhere/ucprun"}),
            "`/nowhere/ucprun`, which writes what a job saves, cannot be run here");
  EXPECT_THAT(refused(ErrorKind::kUsage, {}, "pickle"), HasSubstr("`pickle`"));
}

TEST_F(SaverTest, AnErrorIsThrownWhereTheSaveIsWaitedForOrLater) {
  const Numbers numbers = From(1, 4);
  const StateToSave state = {.tensors = {Matrix("w", numbers, {4})}};
  Saver saver(state, "dcp");
  const Saving failed = saver.Save(Path("no/folder"), state);
  std::string sentence;
  EXPECT_EQ(KindOf([&] { failed.durable.Wait(); }, sentence), ErrorKind::kUsage);
  EXPECT_THAT(sentence, HasSubstr("there is no folder"));
  const Saving unseen = saver.Save(Path("no/folder"), state);  // Nothing is thrown: the first one was seen.
  while (!unseen.durable.is_done()) ::usleep(1000);
  KindOf([&] { saver.Save(Path("begun"), state); }, sentence);
  EXPECT_THAT(sentence, HasSubstr("there is no folder"));
  const Saving last = saver.Save("", state);
  EXPECT_EQ(KindOf([&] { saver.Close(); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "the path to save to is empty");
  EXPECT_EQ(Loaded(Path("begun"), "w", {4}), numbers);
  EXPECT_EQ(KindOf([&] { saver.Save(Path("late"), state); }, sentence), ErrorKind::kUsage);
  EXPECT_EQ(sentence, "the saver is closed");
}

TEST_F(SaverTest, AllRanksHearOfAProblemOfOne) {
  const std::vector<std::string> sentences = ThrownOnRanks(2, [&](Ranks& ranks) {
    const Numbers numbers = From(1, 4);
    StateToSave state = {.tensors = {Matrix("w", numbers, {4})}};
    Saver saver(state, "dcp", {.ranks = &ranks, .timeout_seconds = 60});
    if (ranks.rank() == 1) state.tensors[0].shape = {5};
    saver.Save(Path("never"), state).durable.Wait();
  });
  for (const std::string& sentence : sentences) {
    EXPECT_EQ(sentence, "rank 1 of 2: what is held of `model.w` takes 20 bytes, and its memory has 16");
  }
  EXPECT_FALSE(fs::exists(Path("never")));
}

}  // namespace
}  // namespace ucp
