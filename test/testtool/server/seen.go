// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"sync"

	"github.com/alioth-net/alioth/test/testtool/report"
)

// journalLimit is how many messages a server remembers; the oldest go first.
const journalLimit = 4096

// journal remembers which messages came in, so that a test can tell that a
// packet did not arrive, not only that no answer came back.
type journal struct {
	mu       sync.Mutex
	messages []report.Seen
}

func (j *journal) add(proto string, peer net.Addr, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.messages) == journalLimit {
		j.messages = j.messages[1:]
	}
	j.messages = append(j.messages, report.Seen{Proto: proto, Peer: peerIP(peer), Text: text})
}

// list returns a copy of the remembered messages, oldest first.
func (j *journal) list() []report.Seen {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]report.Seen{}, j.messages...)
}
