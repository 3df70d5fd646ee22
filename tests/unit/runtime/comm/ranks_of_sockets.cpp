#include "tests/unit/runtime/comm/ranks_of_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>
#include <utility>

namespace ucp {

void OnSocketRanks(int size, const std::function<void(SocketRanks&)>& work) {
  std::vector<std::vector<MessageSocket>> sockets(static_cast<std::size_t>(size));
  for (auto& of_rank : sockets) of_rank.resize(static_cast<std::size_t>(size));
  for (std::size_t a = 0; a < sockets.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      int pair[2] = {-1, -1};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      sockets[a][b] = MessageSocket(Descriptor(pair[0]));
      sockets[b][a] = MessageSocket(Descriptor(pair[1]));
    }
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      SocketRanks ranks(rank, std::move(sockets[static_cast<std::size_t>(rank)]));
      work(ranks);
      llvm::consumeError(ranks.AllGather("").takeError());  // Nobody goes before the others are done.
      ranks.Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ucp
