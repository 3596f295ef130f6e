// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
	"github.com/alioth-net/alioth/store/client/kube"
)

// always is a Getter that returns an Address with one content.
type always v1alpha1.AddressSpec

func (a always) GetOnce(_ context.Context, object kube.Object) error {
	object.(*v1alpha1.Address).Spec = v1alpha1.AddressSpec(a)
	return nil
}

func TestResolver_ContradictoryAddress_NoAnswer(t *testing.T) {
	question := cache.Question{Key: cache.Key{VNI: 20, IP: netip.MustParseAddr("10.10.1.5")}, VPC: "blue"}
	for name, c := range map[string]struct {
		change func(*v1alpha1.AddressSpec)
		want   cache.Result
	}{
		"sound":                  {func(*v1alpha1.AddressSpec) {}, cache.Found},
		"no address":             {func(s *v1alpha1.AddressSpec) { s.IP = "0.0.0.0" }, cache.Failed},
		"unreadable":             {func(s *v1alpha1.AddressSpec) { s.IP = "x" }, cache.Failed},
		"a MAC of many stations": {func(s *v1alpha1.AddressSpec) { s.MAC = "ff:ff:ff:ff:ff:ff" }, cache.Failed},
	} {
		spec := v1alpha1.AddressSpec{VPC: "blue", IP: "10.10.1.5", MAC: "02:00:00:00:00:01", Set: []string{"10.10.1.5"}}
		c.change(&spec)
		if got := NewAPI(always(spec)).Resolve(t.Context(), question); got.Result != c.want {
			t.Errorf("%s: the result is %v, want %v", name, got.Result, c.want)
		}
	}
}
