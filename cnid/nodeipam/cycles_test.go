// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"context"
	"testing"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/soak"
)

// TestNodeIPAM_RequestReleaseCycles_NothingLeft: 20 clients attach and detach at the same time.
// Released attachments stay in the release queue alone, until their Addresses are deleted.
func TestNodeIPAM_RequestReleaseCycles_NothingLeft(t *testing.T) {
	// Each release looks through the queue of those before it.
	size := soak.Or(t, struct{ cycles, pods int }{100, 1000}, struct{ cycles, pods int }{3, 250})
	s := serve(t, size.pods)
	for range size.cycles {
		s.each(t, size.pods, 20, func(ctx context.Context, i int) error {
			if err := s.request(ctx, i); err != nil {
				return err
			}
			return s.Release(ctx, asked(i))
		})
		if left := s.journal.Records(); len(left) != 0 {
			t.Fatalf("left are %d records", len(left))
		}
		waiting, err := s.Attachments(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range waiting {
			if one.State != wire.PendingRelease {
				t.Fatalf("left is %+v", one)
			}
		}
		for _, rec := range s.journal.Releases() { // as the releaser does
			if err := s.journal.Released(rec.Seq); err != nil {
				t.Fatal(err)
			}
		}
		found, err := s.driver.List(t.Context())
		if err != nil || len(found) != 0 {
			t.Fatalf("the driver has %+v, %v", found, err)
		}
	}
}
