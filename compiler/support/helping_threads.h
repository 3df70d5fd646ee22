// How many threads a long piece of work may take, for code many levels below who knows: it asks here, and works alone
// unless somebody allowed more.
#pragma once

namespace ucp {

// Allows this thread as many, itself included, while it lives. What files are read with must be safe to use from
// several threads then.
class AllowedThreads {
 public:
  explicit AllowedThreads(unsigned threads);
  ~AllowedThreads();
  AllowedThreads(const AllowedThreads&) = delete;
  AllowedThreads& operator=(const AllowedThreads&) = delete;

  static unsigned Here();  // 1 at the least.

 private:
  const unsigned before_;
};

}  // namespace ucp
