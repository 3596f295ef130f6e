// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"sync"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// MaxVNI is the highest VXLAN network identifier (RFC 7348, section 5). 0 is
// never used.
const MaxVNI = 1<<24 - 1

// VNIRequest is what ChooseVNI is asked for.
type VNIRequest struct {
	// Want is the VNI that the VPC must have, 0 for any.
	Want uint32
	// Taken are VNIs that turned out to be claimed although the snapshot does
	// not know it yet.
	Taken []uint32
	// Released are those of a while ago; nil for none.
	Released *ReleasedVNIs
	Now      time.Time
}

// ChooseVNI returns the VNI to claim for a VPC: the one that it wants, or for 0
// the one above all that are in use or were released as far as Released knows,
// and the lowest free one where there is none above. A VNI is in use that is
// claimed or among Taken; one that a VPC has or asks for without a claim is
// left to those who want it by number. The error is an *Error with reason
// VNITaken or VNIExhausted.
//
// So a VNI that nobody wants by number is not chosen again before all 2^24-1
// have been, and even then not within RestingTime of its release unless no
// other is free. That holds for releases noted in Released, which an operator
// that starts has none of. Who wants a VNI by number gets it as soon as its
// claim is gone.
func ChooseVNI(tx store.ReadTx, r VNIRequest) (uint32, error) {
	used := map[uint32]bool{}
	for _, claim := range store.ListVNIClaims(tx) {
		used[claim.VNI] = true
	}
	for _, vni := range r.Taken {
		used[vni] = true
	}
	if r.Want != 0 {
		if used[r.Want] {
			return 0, refuse(v1alpha1.VNITakenReason, WhenReleased,
				"VNI %d belongs to another VPC: ask for another VNI, or for none", r.Want)
		}
		return r.Want, nil
	}
	for _, vpc := range store.ListVPCs(tx) {
		used[vpc.VNI], used[vpc.WantVNI] = true, true
	}
	return unusedVNI(used, MaxVNI, r.Released, r.Now)
}

// unusedVNI chooses from 1 to limit.
func unusedVNI(used map[uint32]bool, limit uint32, released *ReleasedVNIs, now time.Time) (uint32, error) {
	highest := released.highestEver()
	for vni := range used {
		highest = max(highest, vni)
	}
	if highest < limit {
		return highest + 1, nil
	}
	var resting uint32
	for vni := uint32(1); vni <= limit; vni++ {
		switch {
		case used[vni]:
		case !released.resting(vni, now):
			return vni, nil
		case resting == 0:
			resting = vni
		}
	}
	if resting != 0 {
		return resting, nil
	}
	return 0, refuse(v1alpha1.VNIExhaustedReason, WhenReleased,
		"no VNI from 1 to %d is free: delete a VPC that is not needed", limit)
}

// ReleasedVNIs remembers which VNIs were released. The zero value and nil
// remember none. Its methods may be called from any goroutine.
type ReleasedVNIs struct {
	mu      sync.Mutex
	highest uint32
	// last has the time of the last release, for as long as it matters.
	last map[uint32]time.Time
}

// Add notes that a VNI was released at a time.
func (r *ReleasedVNIs) Add(vni uint32, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[uint32]time.Time{}
	}
	for old, released := range r.last {
		if at.Sub(released) >= RestingTime {
			delete(r.last, old)
		}
	}
	r.last[vni] = at
	r.highest = max(r.highest, vni)
}

func (r *ReleasedVNIs) highestEver() uint32 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.highest
}

func (r *ReleasedVNIs) resting(vni uint32, now time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.last[vni]
	return ok && now.Sub(at) < RestingTime
}
