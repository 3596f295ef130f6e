// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
)

// wantLeftOut compares the objects that a Set leaves out: kind, name and reason.
func wantLeftOut(t *testing.T, set *Set, want ...string) {
	t.Helper()
	var got []string
	for _, one := range set.LeftOut() {
		got = append(got, fmt.Sprintf("%s: %s", one.Object(), one.Reason))
		if one.Why == "" || len(one.Why) > 300 {
			t.Errorf("%s is explained by %d bytes", one.Object(), len(one.Why))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

func TestSet_ContradictoryObject_LeftOutAndReported(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	none, long := addressObject("0.0.0.0", "a", 1), addressObject("10.0.0.2", "b", 1)
	long.Spec.MAC = strings.Repeat("ä", 40000)
	unreadable := addressObject("10.0.0.3", "c", 1)
	unreadable.Spec.Set = []string{"10.0.0"}
	must(t, source.Replace([]kube.Object{none, long, unreadable, addressObject("10.0.0.4", "d", 1)}, "2"))
	wantAddresses(t, set, "blue.10.0.0.4 d")
	wantLeftOut(t, set, "Address blue.0.0.0.0: contradiction", "Address blue.10.0.0.2: contradiction", "Address blue.10.0.0.3: unreadable")

	must(t, source.Update(addressObject("10.0.0.2", "b", 2)))
	must(t, source.Delete(none))
	wantLeftOut(t, set, "Address blue.10.0.0.3: unreadable")
	wantAddresses(t, set, "blue.10.0.0.2 b", "blue.10.0.0.4 d")

	other := fed(t, set, &v1alpha1.Address{})
	must(t, other.Add(unreadable))
	must(t, source.Replace(nil, "3"))
	wantLeftOut(t, set, "Address blue.10.0.0.3: unreadable") // the other source has it still
	other.src.Stop()
	wantLeftOut(t, set)
}

func TestSet_RowWaitsForOther_Reported(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.VPC{})
	must(t, source.Replace([]kube.Object{vpcObject("younger", "b"), vpcObject("older", "a")}, "2"))
	wantLeftOut(t, set, "VPC younger: conflict")
	must(t, source.Delete(vpcObject("older", "a")))
	wantLeftOut(t, set)
}

// refusing refuses one Address.
type refusing struct{ descriptor.Rows }

// Put implements descriptor.Rows.
func (r refusing) Put(tx store.Tx, row any) error {
	if row.(*store.Address).Name == "blue.10.0.0.1" {
		return errors.New("no")
	}
	return r.Rows.Put(tx, row)
}

// TestSet_StoreRefusesRow_OthersPut has an error that is not a conflict.
func TestSet_StoreRefusesRow_OthersPut(t *testing.T) {
	set := newSet(t)
	source := fed(t, set, &v1alpha1.Address{})
	kind := *source.src.scope.Kind
	kind.Rows = refusing{kind.Rows}
	source.src.scope = descriptor.Scope{Kind: &kind}
	must(t, source.Replace([]kube.Object{addressObject("10.0.0.1", "a", 1), addressObject("10.0.0.2", "b", 1)}, "2"))
	wantAddresses(t, set, "blue.10.0.0.2 b")
	must(t, source.Add(addressObject("10.0.0.3", "c", 3)))
	must(t, source.Delete(addressObject("10.0.0.2", "b", 1)))
	wantAddresses(t, set, "blue.10.0.0.3 c")
}
