// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// isInvalid reports whether a plan could not be programmed because it contradicts itself. No
// row of the API should be able to cause that: the tests of package plan try.
func isInvalid(err error) bool {
	return errors.Is(err, state.ErrInvalid) || errors.Is(err, hostdev.ErrInvalid) || errors.Is(err, ruleset.ErrInvalid)
}

// sound returns a plan without its contradictions, and what is left out of it.
func sound(want plan.Wanted) (plan.Wanted, []string) {
	var ofPath, ofDevices, ofFilter []error
	want.Datapath, ofPath = want.Datapath.Sound()
	want.Devices, ofDevices = want.Devices.Sound()
	want.Filter, ofFilter = want.Filter.Sound()
	var left []string
	for _, err := range slices.Concat(ofPath, ofDevices, ofFilter) {
		left = append(left, err.Error())
	}
	return want, left
}

// LeftOut returns what the last Apply left out of its plan, because it contradicted itself.
func (k *Kernel) LeftOut() []string {
	if left := k.leftOut.Load(); left != nil {
		return *left
	}
	return nil
}
