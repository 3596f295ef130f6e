// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Judged is the node's table of the flows that network policies allow. The programs open flows,
// Judged ends them. Its methods must not be called concurrently.
type Judged struct {
	counted
	judged *ebpf.Map
}

// NewJudged returns the table that is in these maps.
func NewJudged(in bpf.Maps) *Judged {
	j := &Judged{judged: in[bpf.JudgedMap]}
	j.counted = counted{opened: in[bpf.JudgedOpenedMap], ended: in[bpf.JudgedEndedMap], in: j}
	return j
}

// answersShift is the place of the flags of the side that did not open a flow.
const answersShift = 8

// sideFlags are the flags of one side.
const sideFlags = bpf.AliothConnFlagCONN_FIN | bpf.AliothConnFlagCONN_RST | bpf.AliothConnFlagCONN_SEEN

// read copies the flows. The one entry of a flow stands for both directions.
func (j *Judged) read() (map[bpf.AliothConnKey]*flow, error) {
	entries, err := readEntries[bpf.AliothJudged](j.judged)
	if err != nil {
		return nil, err
	}
	flows := make(map[bpf.AliothConnKey]*flow, len(entries))
	for key, row := range entries {
		f := &flow{
			forward: key, hasForward: true, hasReverse: true, ifindex: row.Ifindex, lastSeen: time.Duration(row.LastSeen),
			forwardFlags: bpf.AliothConnFlag(row.Flags) & sideFlags,
			reverseFlags: bpf.AliothConnFlag(row.Flags>>answersShift) & sideFlags,
			server:       key.PeerPort,
		}
		if row.Flags&bpf.AliothJudgedFlagJUDGED_INGRESS != 0 {
			f.server = key.PodPort
		}
		flows[key] = f
	}
	return flows, nil
}

func (j *Judged) forget(f *flow) error { return removeEntry(j.judged, f.forward) }

// Tables are both tables of flows, for the interfaces that appear and vanish.
type Tables struct {
	Connections *Table
	Judged      *Judged
}

// Open allows an interface to have flows. Existing counters are left as they are.
func (t Tables) Open(ifindex uint32) error {
	if err := t.Connections.Open(ifindex); err != nil {
		return err
	}
	return t.Judged.Open(ifindex)
}

// End deletes an interface's flows and its counters, if it has any.
func (t Tables) End(ifindex uint32) error {
	if err := t.Connections.End(ifindex); err != nil {
		return err
	}
	return t.Judged.End(ifindex)
}

// Sweep deletes the flows that have ended or have been silent for too long at now, of the
// monotonic clock. It returns the number of deleted flows.
func (t Tables) Sweep(now time.Duration) (removed int, err error) {
	removed, err = t.Connections.Sweep(now)
	if err != nil {
		return removed, err
	}
	judged, err := t.Judged.Sweep(now)
	return removed + judged, err
}
