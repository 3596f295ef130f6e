// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// MaxVNI is the highest VXLAN network identifier (RFC 7348, section 5). 0 is
// never used.
const MaxVNI = 1<<24 - 1

// VNIRequest is the input of ChooseVNI.
type VNIRequest struct {
	// Want is the VNI that the VPC must have, 0 for any.
	Want uint32
	// Taken are VNIs that are claimed although the snapshot does not have the claims
	// yet.
	Taken []uint32
	// Held are VNIs that nodes report to use, claimed or not.
	Held []uint32
}

// ChooseVNI returns the VNI to claim for a VPC: Want, or for 0 the number above all VNIs in use. If
// no number is left above, it returns the lowest free one. A VNI is in use if it is claimed or in
// Taken. A VNI in Held, or one that a VPC has or requests without a claim, is assigned by number
// only. The error is an *Error with reason VNITaken or VNIExhausted.
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
				"VNI %d belongs to another VPC: use another VNI, or remove the request", r.Want)
		}
		return r.Want, nil
	}
	for _, vni := range r.Held {
		used[vni] = true
	}
	for _, vpc := range store.ListVPCs(tx) {
		used[vpc.VNI], used[vpc.WantVNI] = true, true
	}
	return unusedVNI(used, MaxVNI)
}

// unusedVNI chooses from 1 to limit.
func unusedVNI(used map[uint32]bool, limit uint32) (uint32, error) {
	if vni, ok := unusedNumber(used, 1, limit); ok {
		return vni, nil
	}
	return 0, refuse(v1alpha1.VNIExhaustedReason, WhenReleased,
		"no VNI from 1 to %d is free: delete a VPC that is not needed", limit)
}

// ChooseDomainNumber returns the number to claim for a network outside of every VPC. taken
// are numbers that are claimed although the snapshot does not have the claims yet. ok is
// false if none is free.
func ChooseDomainNumber(tx store.ReadTx, taken []uint32) (number uint32, ok bool) {
	used := map[uint32]bool{}
	for claim := range multinet.DomainClaims(tx) {
		used[claim.Number] = true
	}
	for _, number := range taken {
		used[number] = true
	}
	return unusedNumber(used, v1alpha1.MinDomainNumber, v1alpha1.MaxDomainNumber)
}

// unusedNumber chooses from first to limit the number above all numbers in use. If no number is
// left above, it chooses the lowest free one. So a released number rests as long as possible.
func unusedNumber(used map[uint32]bool, first, limit uint32) (number uint32, ok bool) {
	highest := first - 1
	for number := range used {
		highest = max(highest, number)
	}
	if highest < limit {
		return highest + 1, true
	}
	for number := first; number <= limit; number++ {
		if !used[number] {
			return number, true
		}
	}
	return 0, false
}
