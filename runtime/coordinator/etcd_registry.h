// The decisions of a coordinator in etcd, version 3, by its gateway for JSON. One of several coordinators leads: the
// one whose lease holds the key `ucp/coordinator/leader`. Each decision is a transaction that fails if another one
// leads, and the leader stops when its lease has run out by its own clock. So no two coordinators decide.
#pragma once

#include <llvm/Support/Error.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/coordinator/http_post.h"
#include "runtime/coordinator/registry.h"

namespace ucp {

class EtcdRegistry final : public Registry {
 public:
  using Say = std::function<void(const std::string&)>;

  // Waits until this coordinator leads, or `stop` is set: then it returns nothing. `url` is etcd://HOST:PORT. `say` is
  // given warnings, then and later. Fails with kUsage if the URL is another one, with kIo if etcd cannot be reached at
  // first, with kBadData if an entry is damaged.
  static llvm::Expected<std::unique_ptr<EtcdRegistry>> Open(const std::string& url, const std::atomic<bool>& stop,
                                                            Say say);
  // Ends the lease, so that the next one leads at once.
  ~EtcdRegistry() override;

  std::vector<CoordinatorEntry> TakeEntries() override { return std::move(entries_); }
  std::string PlaceOf(std::size_t entry) const override;
  [[nodiscard]] llvm::Error Append(const std::vector<CoordinatorEntry>& entries) override;
  [[nodiscard]] llvm::Error Keep() override;

 private:
  EtcdRegistry(std::string url, HttpServer server, Say say)
      : url_(std::move(url)), server_(std::move(server)), say_(std::move(say)) {}
  [[nodiscard]] llvm::Error WaitToLead(const std::atomic<bool>& stop);
  llvm::Expected<bool> TryToLead();
  [[nodiscard]] llvm::Error ReadEntries();
  [[nodiscard]] llvm::Error Commit(llvm::json::Array writes);
  [[nodiscard]] llvm::Error Renew();
  [[nodiscard]] llvm::Error RunOut() const;
  llvm::Expected<llvm::json::Object> Call(const std::string& path, llvm::json::Object body, double seconds) const;
  double SecondsLeft() const;

  std::string url_;
  HttpServer server_;
  Say say_;
  std::vector<CoordinatorEntry> entries_;
  std::size_t count_ = 0;  // Of entries in etcd.
  std::string leader_;     // As another coordinator has named itself.
  std::string lease_;      // Its number, as JSON has it.
  std::string term_;       // The revision at which this one began to lead; empty: it does not.
  double renewed_ = 0;     // Seconds since boot.
  double tried_ = 0;
  std::string complaint_;  // Why it could not be renewed.
};

}  // namespace ucp
