// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package problems

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// links are host links with failures.
type links []multinet.LinkFailure

func (l links) Failures() []multinet.LinkFailure { return l }

// probing makes no driver.
type probing struct{ probe func() error }

// Probe implements ifdriver.Maker.
func (p probing) Probe(context.Context) error { return p.probe() }

// Open implements ifdriver.Maker.
func (probing) Open(ifdriver.Node) (ifdriver.Driver, error) { return nil, errors.ErrUnsupported }

// TestProblems_MissingFeature_ReportedOnlyWhereNeeded has a kernel without kind absent, which
// then is loaded.
func TestProblems_MissingFeature_ReportedOnlyWhereNeeded(t *testing.T) {
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	probes, loaded := 0, false
	kind := func(name ifdriver.Kind, probe func() error) ifdriver.Type {
		return ifdriver.Type{Kind: name, Maker: probing{func() error { probes++; return probe() }}}
	}
	l := &Lacking{
		node: "node1", store: s, present: map[ifdriver.Kind]bool{},
		registry: ifdriver.Registry{
			kind("absent", func() error {
				if loaded {
					return nil
				}
				return fmt.Errorf("%w: they require the kernel module absent", ifdriver.ErrUnsupported)
			}),
			kind("broken", func() error { return errors.New("too many files") }),
		},
		links: links{{Reason: v1alpha1.KernelUnsupportedReason, Message: "no VLANs"}, {Reason: v1alpha1.ParentMissingReason, Message: "no eth9"}},
	}
	if got := l.Find(t.Context()); !slices.Equal(got, []string{"no VLANs"}) || probes != 0 {
		t.Errorf("without a pod: %q after %d probes", got, probes)
	}
	for i, claim := range []multinet.Claim{{Driver: "absent", Node: "node1"}, {Driver: "broken", Node: "node1"}, {Driver: "delegate", Node: "node1"}, {Driver: "absent", Node: "node2"}} {
		claim.Meta, claim.Namespace, claim.Name = testrows.Meta(fmt.Sprint(i)), "ns", fmt.Sprint(i)
		if err := s.Update(func(tx store.Tx) error { return multinet.PutClaim(tx, &claim) }); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"pods of this node have interfaces of kind absent, and this kernel has no such devices: they require the kernel module absent", "no VLANs"}
	if got := l.Find(t.Context()); !slices.Equal(got, want) {
		t.Errorf("with a pod: %q", got)
	}
	loaded = true
	for range 2 {
		if got := l.Find(t.Context()); !slices.Equal(got, want[1:]) {
			t.Errorf("afterwards: %q", got)
		}
	}
	if probes != 2+2+1 { // broken is tried again, absent is present now
		t.Errorf("%d probes", probes)
	}
}
