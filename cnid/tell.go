// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import "github.com/alioth-net/alioth/cnid/plan"

// tellLost tells people of attachments that are newly lost.
func (s *syncer) tellLost(lost []plan.Lost) {
	now := map[int]string{}
	for _, l := range lost {
		index := l.Record.Device.HostIfindex
		now[index] = l.Reason
		if s.told[index] != l.Reason {
			s.lost(l)
		}
	}
	s.told = now
}

// tellClosed tells people of ports that are newly closed to a pod, unless the pass did
// not come to know.
func (s *syncer) tellClosed(last outcome) {
	if last.err != nil {
		return
	}
	now := map[plan.ClosedPort]bool{}
	for _, c := range last.closed {
		now[c] = true
		if !s.toldClosed[c] {
			s.closed(c)
		}
	}
	s.toldClosed = now
}
