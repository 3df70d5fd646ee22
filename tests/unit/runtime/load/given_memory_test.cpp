#include "runtime/load/given_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/load/load.h"
#include "tests/unit/runtime/load/small_load.h"

namespace ucp {
namespace {

using ::testing::HasSubstr;

// Three pages; the one in the middle is mapped for reading alone.
class Pages {
 public:
  Pages() : bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    void* memory = mmap(nullptr, 3 * bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    first_ = static_cast<std::byte*>(memory);
    EXPECT_EQ(mprotect(first_ + bytes_, bytes_, PROT_READ), 0);
  }
  ~Pages() { munmap(first_, 3 * bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> all() const { return {first_, 3 * bytes_}; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::size_t bytes_;
  std::byte* first_ = nullptr;
};

std::string ErrorOf(const std::vector<WantedRecord>& wanted, llvm::function_ref<std::uint64_t(RecordId)> bytes_of,
                    std::size_t records) {
  auto name_of = [](RecordId record) { return fmt::format("record {}", record); };
  llvm::Error error = CheckWanted(wanted, records, bytes_of, name_of);
  return error ? TakeFailure(std::move(error)).message : "no error";
}

// Of each of them a record; the message of what is wrong with them.
std::string ErrorOf(const std::vector<std::span<std::byte>>& memory) {
  std::vector<WantedRecord> wanted;
  for (std::size_t i = 0; i < memory.size(); ++i) wanted.push_back({RecordId(i), memory[i]});
  return ErrorOf(wanted, [&](RecordId record) { return memory[record.index()].size(); }, memory.size());
}

TEST(GivenMemoryTest, FindsTheStretchThatCannotBeWritten) {
  const Pages pages;
  const std::size_t page = pages.bytes();
  const std::span<std::byte> before = pages.all().first(page), behind = pages.all().last(page);
  std::vector<std::byte> own(100'000);
  EXPECT_EQ(ErrorOf({}), "no error");
  EXPECT_EQ(ErrorOf({before, behind, own, {}}), "no error");
  for (const std::span<std::byte> wrong : {pages.all().subspan(page, 1), pages.all().first(page + 1),
                                           pages.all().last(page + 1), pages.all().subspan(2 * page - 1, 1)}) {
    EXPECT_THAT(ErrorOf({before, own, wrong, behind}), HasSubstr("the memory for record 2 cannot be written"));
  }
}

TEST(GivenMemoryTest, MemoryThatIsNotThereCannotBeWritten) {
  std::byte byte{};
  std::vector<std::span<std::byte>> memory = {std::span(&byte, 1)};
  {
    const Pages pages;
    memory.push_back(pages.all().first(1));
  }
  EXPECT_THAT(ErrorOf(memory), HasSubstr("the memory for record 1 cannot be written"));
}

TEST(GivenMemoryTest, FindsWhatSharesBytes) {
  std::vector<std::byte> bytes(100);
  const std::span<std::byte> all(bytes);
  EXPECT_EQ(ErrorOf({all.subspan(60, 40), all.subspan(60, 0), all.first(20), all.subspan(20, 40)}), "no error");
  EXPECT_THAT(ErrorOf({all.subspan(60, 40), all.first(20), all.subspan(20, 41)}),
              HasSubstr("the memory for record 2 shares a part with that for record 0"));
  EXPECT_THAT(ErrorOf({all.subspan(10, 1), all.subspan(90, 5), all}),
              HasSubstr("the memory for record 2 shares a part with that for record 0"));
  EXPECT_THAT(ErrorOf({all, all}), HasSubstr("shares a part"));
}

TEST(GivenMemoryTest, FindsWhatDoesNotFitItsRecord) {
  std::vector<std::byte> bytes(100);
  const std::span<std::byte> all(bytes);
  auto ten = [](RecordId) -> std::uint64_t { return 10; };
  const WantedRecord first{RecordId(0), all.first(10)}, last{RecordId(1), all.last(10)};
  EXPECT_EQ(ErrorOf({last, first}, ten, 2), "no error");
  EXPECT_EQ(ErrorOf({first, last}, ten, 1), "record 1 is wanted, and there are 1");
  EXPECT_EQ(ErrorOf({first, {RecordId(1), all.last(9)}}, ten, 2), "record 1 has 10 bytes, and its memory 9");
  EXPECT_EQ(ErrorOf({first, last, first}, ten, 2), "record 0 is wanted twice");
}

TEST(GivenMemoryTest, ALoadNamesTheTensorBeforeAnythingIsRead) {
  SmallConversion conversion({{"a", {6, 4}}});
  conversion.AddSource({});
  conversion.SetTarget({});
  conversion.Finish();
  const SmallLoad small(std::move(conversion));
  LoadPlan load = small.load;
  load.source_folder = "/nowhere";
  const Pages pages;
  const RecordId record = small.records.front();
  const WantedRecord wanted{record, pages.all().subspan(pages.bytes(), load.plan.target.record(record).bytes)};
  llvm::Expected<LoadReport> report = Load(load, RealFileSystem(), std::span(&wanted, 1), {});
  ASSERT_FALSE(static_cast<bool>(report));
  const FailureText failure = TakeFailure(report.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kUsage);
  EXPECT_THAT(failure.message,
              HasSubstr("the memory for tensor `a` cannot be written: the process has mapped it for reading"));
}

}  // namespace
}  // namespace ucp
