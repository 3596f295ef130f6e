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

// tellTaken tells people of node ports that are newly taken, unless the pass did not come
// to know.
func (s *syncer) tellTaken(last outcome) {
	if last.err != nil {
		return
	}
	now := map[plan.Taken]bool{}
	for _, t := range last.taken {
		now[t] = true
		if !s.toldTaken[t] {
			s.taken(t)
		}
	}
	s.toldTaken = now
}
