// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/external"
)

func TestHostAccessesAreRead(t *testing.T) {
	object := func(ports ...string) *v1alpha1.HostAccess {
		return &v1alpha1.HostAccess{
			ObjectMeta: objectMeta("ingress", "u", 3),
			Spec:       v1alpha1.HostAccessSpec{AllowedTenants: []string{"blue"}, HostPorts: ports, HostNetwork: true},
		}
	}
	got, err := convertHostAccess(object("8080", "30100-30199/TCP", "65535/UDP"))
	if err != nil {
		t.Fatal(err)
	}
	want := &external.HostAccess{
		Meta: store.Meta{UID: "u", ResourceVersion: "3"}, Name: "ingress", AllowedTenants: []string{"blue"}, HostNetwork: true,
		Ports: []external.HostPortRange{{First: 8080, Last: 8080}, {Protocol: "TCP", First: 30100, Last: 30199}, {Protocol: "UDP", First: 65535, Last: 65535}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "http", "65536", "1-", "-1", "1-2-3"} {
		if row, err := convertHostAccess(object(text)); err == nil {
			t.Errorf("%q is read as %+v", text, row.Ports)
		}
	}
}
