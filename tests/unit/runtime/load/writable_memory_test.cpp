#include "runtime/load/writable_memory.h"

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

using Stretch = std::span<const std::byte>;

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

TEST(WritableMemoryTest, FindsTheStretchThatCannotBeWritten) {
  const Pages pages;
  const std::size_t page = pages.bytes();
  const Stretch before = pages.all().first(page), behind = pages.all().last(page);
  std::vector<std::byte> own(100'000);
  EXPECT_EQ(FirstReadOnly({}), std::nullopt);
  EXPECT_EQ(FirstReadOnly(std::vector<Stretch>{before, behind, own, {}}), std::nullopt);
  for (const Stretch wrong : {pages.all().subspan(page, 1), pages.all().first(page + 1), pages.all().last(page + 1),
                              pages.all().subspan(2 * page - 1, 1)}) {
    EXPECT_EQ(FirstReadOnly(std::vector<Stretch>{before, own, wrong, behind}), 2);
  }
}

TEST(WritableMemoryTest, MemoryThatIsNotThereCannotBeWritten) {
  std::vector<Stretch> stretches;
  {
    const Pages pages;
    stretches.push_back(pages.all().first(1));
  }
  stretches.insert(stretches.begin(), Stretch(reinterpret_cast<const std::byte*>(&stretches), sizeof stretches));
  EXPECT_EQ(FirstReadOnly(stretches), 1);
}

TEST(WritableMemoryTest, ALoadNamesTheTensorBeforeAnythingIsRead) {
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
  const FailureText failure = Describe(report.takeError());
  EXPECT_EQ(failure.code, ErrorCode::kUsage);
  EXPECT_THAT(
      failure.message,
      ::testing::HasSubstr("the memory for tensor `a` cannot be written: the process has mapped it for reading"));
}

}  // namespace
}  // namespace ucp
