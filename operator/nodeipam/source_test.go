// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/operator/nodeipam"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	rows "github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

var group = multitenancyv1alpha1.GroupVersion.Group

// node-1 has the label of the API, and offers two devices.
func world(more ...any) []any {
	return append(more,
		&store.Node{Meta: operatortest.Meta("uid-node", 0), Name: "node-1", NodeIPAM: true}, &store.Node{Meta: operatortest.Meta("uid-node-2", 0), Name: "node-2"},
		operatortest.VPC("infra", 9, []string{"nobody"}, "10.9.0.0/16"), operatortest.Subnet("infra-pods", "infra", "pods", 0, "10.9.0.0/24"),
		operatortest.VPC("v", 1, []string{"blue"}, "10.0.0.0/16"), operatortest.VPC("w", 2, []string{"red"}, "10.0.0.0/16"),
		podNetwork("net", "v"), podNetwork("other", "v"), podNetwork("foreign", "w"),
		&rows.Instance{
			Meta: operatortest.Meta("uid-pni", 0), Ref: rows.Ref{Group: group, Namespace: "a", Name: "pni"}, Ready: true,
			Interfaces: []rows.Interface{{PodNetwork: "net", Reserve: 2}, {PodNetwork: "other"}},
		},
		&rows.NodeInfo{Meta: operatortest.Meta("uid-info", 0), Ref: rows.Ref{Group: group, Name: "node-1"}, MACs: []string{"00:00:00:00:00:02", "00:00:00:00:00:01"}},
	)
}

func podNetwork(name, vpc string) *rows.PodNetwork {
	return &rows.PodNetwork{Meta: operatortest.Meta("uid-"+name, 0), Ref: rows.Ref{Group: group, Name: name}, VPC: vpc, Subnet: "net1", Ready: true}
}

// decide returns the desired attachments of pod a/p of tenant blue in short, or the refusal, or "next"
// if another source decides.
func decide(t *testing.T, rows []any, change func(*store.Pod)) []string {
	t.Helper()
	p := operatortest.Pod("blue", "a", "p", "", "")
	change(p)
	source := nodeipam.Source("infra-pods", func(store.ReadTx, *store.Pod) ([]pod.Desired, *tenancy.Refusal) {
		return nil, &tenancy.Refusal{Reason: "next"}
	})
	var desired []pod.Desired
	var refusal *tenancy.Refusal
	operatortest.New(t, append(rows, p)...).View(func(tx store.ReadTx) { desired, refusal = source(tx, p) })
	if refusal != nil {
		return []string{strings.TrimSuffix(refusal.Reason+": "+refusal.Message, ": ")}
	}
	var short []string
	for _, w := range desired {
		short = append(short, fmt.Sprintf("%s %s %s/%s %v %s %s", w.Interface, w.Kind, w.VPC, w.Subnet, w.Devices, w.Instance, w.PodNetwork))
	}
	return short
}

func labelled(keysAndValues ...string) func(*store.Pod) {
	return func(p *store.Pod) {
		p.Labels = map[string]string{}
		for i := 0; i < len(keysAndValues); i += 2 {
			p.Labels[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

func TestSource_PodsOnAPINodes_InterfacesOrRefusal(t *testing.T) {
	const (
		instance, network = multitenancyv1alpha1.PodNetworkInstanceLabel, multitenancyv1alpha1.PodNetworkLabel
		infra             = "eth0 external infra/infra-pods []  "
		devices           = "[00:00:00:00:00:01 00:00:00:00:00:02]"
	)
	for name, c := range map[string]struct {
		rows   []any
		change func(*store.Pod)
		want   []string
	}{
		"a pod without a request": {world(), labelled(), []string{infra}},
		"on another node":         {world(), func(p *store.Pod) { p.Node = "node-2" }, []string{"next"}},
		"a pod of a tenant, on another node": {world(), func(p *store.Pod) { p.Node = "node-2"; labelled(network, "net")(p) }, []string{
			"NodeNotMultitenant: the pod has the label " + network + ", and node node-2 lacks the label " + multitenancyv1alpha1.NodeLabel + ": schedule the pod to a node with that label, for example by a nodeSelector, or remove the pod's label",
		}},
		"... that names a Network":           {world(), func(p *store.Pod) { p.Node = "node-2"; labelled(instance, "pni")(p); p.Network = "net1" }, []string{"next"}},
		"on a node that is not seen yet":     {world(), func(p *store.Pod) { p.Node = "node-3" }, []string{": node node-3 is not known yet"}},
		"... and it names a Network":         {world(), func(p *store.Pod) { p.Node, p.Network = "node-3", "net1" }, []string{"next"}},
		"a pod that names a Network":         {world(), func(p *store.Pod) { p.Network = "net1" }, []string{"next"}},
		"a pod that asks for an address":     {world(), func(p *store.Pod) { p.NIC = "{}" }, []string{"next"}},
		"a pod that lists interfaces":        {world(), func(p *store.Pod) { p.Interfaces = "[]" }, []string{"next"}},
		"a pod that selects definitions":     {world(), func(p *store.Pod) { p.Selections = "n" }, []string{"next"}},
		"a pod of a PodNetwork":              {world(), labelled(network, "net"), []string{infra, "eth1 external v/net1 " + devices + "  "}},
		"a pod of an instance":               {world(), labelled(instance, "pni"), []string{infra, "eth1 external v/net1 " + devices + " a/pni net", "eth2 external v/net1 " + devices + " a/pni other"}},
		"an instance precedes a PodNetwork":  {world(), labelled(instance, "pni", network, "foreign"), []string{infra, "eth1 external v/net1 " + devices + " a/pni net", "eth2 external v/net1 " + devices + " a/pni other"}},
		"an instance that is not there":      {world(), labelled(instance, "gone"), []string{`PodNetworkInstanceNotFound: there is no PodNetworkInstance "gone" in namespace "a": create it, or correct the label ` + instance}},
		"an instance of another namespace":   {world(), func(p *store.Pod) { p.Namespace = "b"; labelled(instance, "pni")(p) }, []string{`PodNetworkInstanceNotFound: there is no PodNetworkInstance "pni" in namespace "b": create it, or correct the label ` + instance}},
		"a label without a value":            {world(), labelled(network, ""), []string{"PodNetworkNotReady: there is no PodNetwork \"\": create it, or correct the name"}},
		"a PodNetwork of another tenant's":   {world(), labelled(network, "foreign"), []string{`TenantNotAllowed: VPC "w" of PodNetwork "foreign" does not allow tenant "blue": ask the cluster's operator to add it to spec.allowedTenants`}},
		"a PodNetwork that is not ready":     {world(&rows.PodNetwork{Meta: operatortest.Meta("u", 0), Ref: rows.Ref{Group: group, Name: "new"}, VPC: "v"}), labelled(network, "new"), []string{"PodNetworkNotReady: PodNetwork \"new\" is not Ready: see `kubectl describe podnetworks." + group + " new`"}},
		"without the infrastructure subnet":  {[]any{&store.Node{Meta: operatortest.Meta("uid-node", 0), Name: "node-1", NodeIPAM: true}}, labelled(), []string{`SubnetNotFound: there is no Subnet "infra-pods" for infrastructure pods: create it, or correct the chart's nodeIPAM.infraSubnet`}},
		"an instance that is being deleted":  {world(), labelled(instance, "leaving"), []string{"PodNetworkInstanceNotReady: PodNetworkInstance a/leaving is not Ready: see `kubectl describe podnetworkinstances." + group + " leaving -n a`"}},
		"an instance without any PodNetwork": {world(), labelled(instance, "empty"), []string{"PodNetworkInstanceNotReady: PodNetworkInstance a/empty names no PodNetwork: add one to spec.podNetworkConfigs"}},
	} {
		t.Run(name, func(t *testing.T) {
			leaving := &rows.Instance{
				Meta:       operatortest.Meta("l", 0),
				Ref:        rows.Ref{Group: group, Namespace: "a", Name: "leaving"},
				Ready:      true,
				Interfaces: []rows.Interface{{PodNetwork: "net"}},
			}
			leaving.Deleting = true
			empty := &rows.Instance{Meta: operatortest.Meta("e", 0), Ref: rows.Ref{Group: group, Namespace: "a", Name: "empty"}, Ready: true}
			if diff := cmp.Diff(c.want, decide(t, append(c.rows, leaving, empty), c.change)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
