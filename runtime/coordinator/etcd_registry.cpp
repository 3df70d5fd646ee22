#include "runtime/coordinator/etcd_registry.h"

#include <fmt/format.h>
#include <llvm/Support/Base64.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/support/printable.h"
#include "runtime/coordinator/messages.h"

namespace ucp {
namespace {

constexpr int kLeaseSeconds = 5;
constexpr double kSecondsToRenew = 1;
constexpr double kBetweenRenewals = 1.5;
constexpr std::chrono::milliseconds kBetweenTries{250};
constexpr int kEntriesOfAnswer = 50;
// Of one transaction: etcd takes 128 operations and 1.5 MiB, unless it is started with other limits.
constexpr std::size_t kMostWrites = 100;
constexpr std::size_t kMostWriteBytes = std::size_t{1} << 19;
constexpr std::string_view kScheme = "etcd://";
constexpr std::string_view kLeaderKey = "ucp/coordinator/leader";
constexpr std::string_view kEntries = "ucp/coordinator/entries/";
constexpr std::string_view kEndOfEntries = "ucp/coordinator/entries0";  // `0` is behind `/`.

// Passes while the machine is suspended, as the lease does in etcd.
double SecondsSinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::string Encoded(std::string_view bytes) { return llvm::encodeBase64(bytes); }

llvm::Expected<std::string> DecodedValue(const llvm::json::Object& pair) {
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(pair.getString("value").value_or(""), bytes)) {
    llvm::consumeError(std::move(error));
    return MakeError(ErrorCode::kBadData, "its value is not base64");
  }
  return std::string(bytes.begin(), bytes.end());
}

std::string KeyOf(std::size_t number) { return fmt::format("{}{:016}", kEntries, number); }

std::string OwnName() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} of {}", ::getpid(), host.data());
}

llvm::json::Object Revision(std::string_view key, const std::string& revision) {
  return llvm::json::Object{{"target", "CREATE"}, {"key", Encoded(key)}, {"create_revision", revision}};
}

llvm::json::Object Put(std::string_view key, std::string_view value) {
  return llvm::json::Object{{"key", Encoded(key)}, {"value", Encoded(value)}};
}

llvm::json::Object Request(llvm::json::Object put) { return llvm::json::Object{{"request_put", std::move(put)}}; }

llvm::json::Object Transaction(llvm::json::Object compare, llvm::json::Array writes) {
  return llvm::json::Object{{"compare", llvm::json::Array{std::move(compare)}}, {"success", std::move(writes)}};
}

bool HasSucceeded(const llvm::json::Object& answer) { return answer.getBoolean("succeeded").value_or(false); }

llvm::Expected<HttpServer> ParseUrl(const std::string& url) {
  const std::string_view rest = url.starts_with(kScheme) ? std::string_view(url).substr(kScheme.size()) : "";
  if (rest.find('@') != std::string_view::npos) {
    return MakeError(ErrorCode::kUsage,
                     "the registry names a user, and ucp speaks to etcd without one; give etcd://HOST:PORT");
  }
  const std::size_t colon = rest.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  if (colon == 0 || port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) {
    return Fail(ErrorCode::kUsage, "`{}` is not a registry such as etcd://host:2379", Printable(url));
  }
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return HttpServer{std::string(host), std::string(port), nullptr};
}

}  // namespace

llvm::Expected<std::unique_ptr<EtcdRegistry>> EtcdRegistry::Open(const std::string& url, const std::atomic<bool>& stop,
                                                                 Say say) {
  UCP_ASSIGN_OR_RETURN(HttpServer server, ParseUrl(url));
  std::unique_ptr<EtcdRegistry> registry(new EtcdRegistry(Printable(url), std::move(server), std::move(say)));
  UCP_RETURN_IF_ERROR(registry->WaitToLead(stop));
  if (registry->term_.empty()) return nullptr;
  UCP_RETURN_IF_ERROR(registry->ReadEntries());
  return registry;
}

EtcdRegistry::~EtcdRegistry() {
  if (term_.empty() || SecondsLeft() <= 0) return;
  llvm::consumeError(Call("/v3/lease/revoke", llvm::json::Object{{"ID", lease_}}, kSecondsToRenew).takeError());
}

std::string EtcdRegistry::PlaceOf(std::size_t entry) const {
  return fmt::format("`{}`: the key `{}`", url_, KeyOf(entry));
}

llvm::Expected<llvm::json::Object> EtcdRegistry::Call(const std::string& path, llvm::json::Object body,
                                                      double seconds) const {
  llvm::Expected<llvm::json::Object> answer = PostJson(server_, path, std::move(body), seconds);
  if (!answer) return AddContext(answer.takeError(), fmt::format("`{}`: {}", url_, path));
  return answer;
}

// The time counts from before the question on, so that the lease ends here before it ends in etcd.
double EtcdRegistry::SecondsLeft() const { return kLeaseSeconds - (SecondsSinceBoot() - renewed_); }

llvm::Error EtcdRegistry::WaitToLead(const std::atomic<bool>& stop) {
  std::string said;
  const auto say_once = [&](std::string what) {
    if (what != said) say_(what);
    said = std::move(what);
  };
  for (bool is_first = true; !stop; is_first = false) {
    llvm::Expected<bool> leads = TryToLead();
    if (!leads && is_first) return leads.takeError();
    if (!leads) {
      say_once("warning: " + TakeFailure(leads.takeError()).message);
    } else if (*leads) {
      return llvm::Error::success();
    } else if (!leader_.empty()) {
      say_once(fmt::format("waiting: {} is the coordinator of `{}`", leader_, url_));
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return llvm::Error::success();
}

// A lease that is not used ends by itself. The addresses of etcd stay for the term, since a question for names has no
// limit of time.
llvm::Expected<bool> EtcdRegistry::TryToLead() {
  llvm::Expected<TcpAddresses> addresses = FindTcp(server_.host, server_.port);
  if (!addresses) return AddContext(addresses.takeError(), fmt::format("`{}`: its address", url_));
  server_.addresses = std::move(*addresses);
  UCP_ASSIGN_OR_RETURN(const llvm::json::Object found,
                       Call("/v3/kv/range", llvm::json::Object{{"key", Encoded(kLeaderKey)}}, kLeaseSeconds));
  const llvm::json::Array* pairs = found.getArray("kvs");
  const llvm::json::Object* pair = pairs == nullptr || pairs->empty() ? nullptr : (*pairs)[0].getAsObject();
  if (pair != nullptr) {
    llvm::Expected<std::string> leader = DecodedValue(*pair);
    if (!leader) return AddContext(leader.takeError(), fmt::format("`{}`: the key `{}`", url_, kLeaderKey));
    leader_ = Printable(*leader);
    return false;
  }
  renewed_ = tried_ = SecondsSinceBoot();
  UCP_ASSIGN_OR_RETURN(const llvm::json::Object granted,
                       Call("/v3/lease/grant", llvm::json::Object{{"TTL", kLeaseSeconds}}, kLeaseSeconds));
  lease_ = granted.getString("ID").value_or("").str();
  llvm::json::Object put = Put(kLeaderKey, OwnName());
  put["lease"] = lease_;
  llvm::json::Object transaction = Transaction(Revision(kLeaderKey, "0"), llvm::json::Array{Request(std::move(put))});
  UCP_ASSIGN_OR_RETURN(const llvm::json::Object made, Call("/v3/kv/txn", std::move(transaction), SecondsLeft()));
  const llvm::json::Object* header = made.getObject("header");
  if (!HasSucceeded(made) || header == nullptr) return false;
  term_ = header->getString("revision").value_or("").str();
  return !term_.empty();
}

llvm::Error EtcdRegistry::ReadEntries() {
  while (true) {
    UCP_RETURN_IF_ERROR(Keep());
    llvm::json::Object question{
        {"key", Encoded(KeyOf(count_))}, {"range_end", Encoded(kEndOfEntries)}, {"limit", kEntriesOfAnswer}};
    UCP_ASSIGN_OR_RETURN(const llvm::json::Object found, Call("/v3/kv/range", std::move(question), SecondsLeft()));
    const llvm::json::Array* pairs = found.getArray("kvs");
    if (pairs == nullptr || pairs->empty()) return llvm::Error::success();
    for (const llvm::json::Value& value : *pairs) {
      const llvm::json::Object* pair = value.getAsObject();
      if (pair == nullptr || pair->getString("key").value_or("") != Encoded(KeyOf(count_))) {
        return Fail(ErrorCode::kBadData, "{} is missing, and later ones are there", PlaceOf(count_));
      }
      llvm::Expected<std::string> text = DecodedValue(*pair);
      llvm::Expected<CoordinatorEntry> entry = text ? ParseEntry(*text) : text.takeError();
      if (!entry) return AddContext(entry.takeError(), PlaceOf(count_) + " is damaged");
      entries_.push_back(std::move(*entry));
      ++count_;
    }
  }
}

llvm::Error EtcdRegistry::Append(const std::vector<CoordinatorEntry>& entries) {
  llvm::json::Array writes;
  std::size_t bytes = 0;
  for (const CoordinatorEntry& entry : entries) {
    const std::string line = LineOf(JsonOf(entry));
    if (writes.size() == kMostWrites || (!writes.empty() && bytes + line.size() > kMostWriteBytes)) {
      UCP_RETURN_IF_ERROR(Commit(std::exchange(writes, {})));
      UCP_RETURN_IF_ERROR(Keep());
      bytes = 0;
    }
    bytes += line.size();
    writes.push_back(Request(Put(KeyOf(count_ + writes.size()), line)));
  }
  return writes.empty() ? llvm::Error::success() : Commit(std::move(writes));
}

// An answer that does not come leaves open whether the entries are there. The next coordinator reads them, and this one
// ends.
llvm::Error EtcdRegistry::Commit(llvm::json::Array writes) {
  const std::size_t count = writes.size();
  llvm::json::Object transaction = Transaction(Revision(kLeaderKey, term_), std::move(writes));
  UCP_ASSIGN_OR_RETURN(const llvm::json::Object made, Call("/v3/kv/txn", std::move(transaction), SecondsLeft()));
  if (!HasSucceeded(made)) return Fail(ErrorCode::kIo, "`{}`: another coordinator has taken over", url_);
  count_ += count;
  return llvm::Error::success();
}

llvm::Error EtcdRegistry::Keep() {
  if (SecondsLeft() <= 0) return RunOut();
  if (SecondsSinceBoot() - tried_ < kBetweenRenewals) return llvm::Error::success();
  tried_ = SecondsSinceBoot();
  if (llvm::Error error = Renew()) {
    std::string why = TakeFailure(std::move(error)).message;
    if (complaint_.empty()) {
      say_(fmt::format("warning: the lease is not renewed, and has {:.1f} s left: {}", std::max(SecondsLeft(), 0.0),
                       why));
    }
    complaint_ = std::move(why);
  } else if (!std::exchange(complaint_, "").empty()) {
    say_(fmt::format("`{}` is back", url_));
  }
  return SecondsLeft() > 0 ? llvm::Error::success() : RunOut();
}

llvm::Error EtcdRegistry::Renew() {
  UCP_ASSIGN_OR_RETURN(const llvm::json::Object answer,
                       Call("/v3/lease/keepalive", llvm::json::Object{{"ID", lease_}}, kSecondsToRenew));
  const llvm::json::Object* result = answer.getObject("result");
  if (result == nullptr || !result->getString("TTL")) {  // A lease that has ended has none.
    renewed_ = -kLeaseSeconds;
    return Fail(ErrorCode::kIo, "`{}`: etcd does not know the lease any more", url_);
  }
  renewed_ = tried_;
  return llvm::Error::success();
}

llvm::Error EtcdRegistry::RunOut() const {
  const std::string why = complaint_.empty() ? "this process was stopped for longer" : complaint_;
  return Fail(ErrorCode::kIo, "the lease of {} s at `{}` has run out: {}", kLeaseSeconds, url_, why);
}

}  // namespace ucp
