// The exceptions that calls of the library throw.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/runtime/library/job_of_threads.h"
#include "ucp/load.h"

namespace ucp {

inline LoadSource Fixture(const std::string& name) {
  return {.path = std::string(UCP_SOURCE_DIR) + "/tests/fixtures/" + name + "/checkpoint"};
}

inline ErrorKind KindOf(const std::function<void()>& work, std::string& sentence) {
  try {
    work();
  } catch (const Error& error) {
    sentence = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kIo;
}

// By rank. It must be kUsage everywhere.
inline std::vector<std::string> ThrownOnRanks(int size, const std::function<void(Ranks&)>& work) {
  std::vector<std::string> sentences(static_cast<std::size_t>(size));
  RunJob(size, [&](Ranks& ranks) {
    std::string& sentence = sentences[static_cast<std::size_t>(ranks.rank())];
    EXPECT_EQ(KindOf([&] { work(ranks); }, sentence), ErrorKind::kUsage);
  });
  return sentences;
}

}  // namespace ucp
