// The devices that are tested, and the plainest way to look into one's memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/gpu/device.h"
#include "runtime/gpu/host_device.h"

namespace ucp::testing {

// The error in words.
std::string TextOf(llvm::Error error);

#define ASSERT_SUCCESS(expression) ASSERT_EQ(::ucp::testing::TextOf(expression), "")

// Its value; the test fails, and ends, if there is none.
template <typename T>
T Must(llvm::Expected<T> made) {
  if (!made) throw std::runtime_error(TextOf(made.takeError()));
  return std::move(*made);
}

std::vector<std::byte> RandomBytes(std::size_t count, unsigned seed);

// By way of pinned memory, and waited for.
void PutIn(const Device& device, std::span<std::byte> memory, std::span<const std::byte> bytes);
std::vector<std::byte> TakeOut(const Device& device, std::span<const std::byte> memory);

// The stand-in, late on purpose, and the first GPU of this machine; without one its tests are skipped and say why.
class EachDevice : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  const Device& device() const { return *device_; }

 private:
  std::unique_ptr<Device> device_;
};

#define TEST_ON_EACH_DEVICE(name) \
  INSTANTIATE_TEST_SUITE_P(On, name, ::testing::Values("StandIn", "Cuda"), [](const auto& each) { return each.param; })

}  // namespace ucp::testing
