// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
)

const root = "../../.."

func newClient(t *testing.T, server *apiserver.Server) client.Client {
	t.Helper()
	c, err := client.New(server.Config(), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultVPC_Upgrades_Kept(t *testing.T) {
	server := bareServer(t)
	helm := chart.New(t, root, server.Config())
	if err := helm.Upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, server)
	first := new(v1alpha1.VPC)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, first); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		args []string
		want int
	}{
		{"an upgrade that changes nothing", nil, 2},
		{"an upgrade that adds a range", []string{"--set", "defaultVPC.cidrs={10.244.0.0/16,fd10:244::/48,10.245.0.0/16}"}, 3},
		{"an upgrade that no longer makes it", []string{"--set", "defaultVPC.enabled=false"}, 3},
	} {
		upgrade(t, helm, step.name, step.args...)
		vpc := new(v1alpha1.VPC)
		if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, vpc); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if vpc.UID != first.UID || vpc.DeletionTimestamp != nil {
			t.Errorf("%s: the default VPC was deleted or made anew", step.name)
		}
		if len(vpc.Spec.CIDRs) != step.want {
			t.Errorf("%s: the default VPC has ranges %v, want %d", step.name, vpc.Spec.CIDRs, step.want)
		}
	}
	subnet := new(v1alpha1.Subnet)
	if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, subnet); err != nil {
		t.Fatal(err)
	}
}
