// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipamapi

import (
	"iter"
	"slices"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// Groups are the API groups of the node IPAM API.
var Groups = []string{multitenancyv1alpha1.GroupVersion.Group, acnv1alpha1.GroupVersion.Group}

// The kinds of the node IPAM API, by API group. The kinds of one name share tables. Nodes
// follow none of them: a daemon writes its NodeInfo, and attaches by Addresses alone.
var (
	PodNetworks = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: defineNodeIPAM(multitenancyv1alpha1.GroupVersion.Group, podNetworkTable,
			nodeIPAM[*multitenancyv1alpha1.PodNetwork, nodeipam.PodNetwork]{
				"PodNetwork", &multitenancyv1alpha1.PodNetwork{}, &multitenancyv1alpha1.PodNetworkList{}, convertPodNetwork,
			}),
		acnv1alpha1.GroupVersion.Group: defineNodeIPAM(acnv1alpha1.GroupVersion.Group, podNetworkTable,
			nodeIPAM[*acnv1alpha1.PodNetwork, nodeipam.PodNetwork]{
				"PodNetwork", &acnv1alpha1.PodNetwork{}, &acnv1alpha1.PodNetworkList{},
				func(in *acnv1alpha1.PodNetwork) *nodeipam.PodNetwork {
					return convertPodNetwork((*multitenancyv1alpha1.PodNetwork)(in))
				},
			}),
	}
	PodNetworkInstances = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: defineNodeIPAM(multitenancyv1alpha1.GroupVersion.Group, instanceTable,
			nodeIPAM[*multitenancyv1alpha1.PodNetworkInstance, nodeipam.Instance]{
				"PodNetworkInstance", &multitenancyv1alpha1.PodNetworkInstance{}, &multitenancyv1alpha1.PodNetworkInstanceList{}, convertInstance,
			}),
		acnv1alpha1.GroupVersion.Group: defineNodeIPAM(acnv1alpha1.GroupVersion.Group, instanceTable,
			nodeIPAM[*acnv1alpha1.PodNetworkInstance, nodeipam.Instance]{
				"PodNetworkInstance", &acnv1alpha1.PodNetworkInstance{}, &acnv1alpha1.PodNetworkInstanceList{},
				func(in *acnv1alpha1.PodNetworkInstance) *nodeipam.Instance {
					return convertInstance((*multitenancyv1alpha1.PodNetworkInstance)(in))
				},
			}),
	}
	PodNetworkConfigs = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: defineNodeIPAM(multitenancyv1alpha1.GroupVersion.Group, podConfigTable,
			nodeIPAM[*multitenancyv1alpha1.MultitenantPodNetworkConfig, nodeipam.PodConfig]{
				"MultitenantPodNetworkConfig", &multitenancyv1alpha1.MultitenantPodNetworkConfig{}, &multitenancyv1alpha1.MultitenantPodNetworkConfigList{},
				func(in *multitenancyv1alpha1.MultitenantPodNetworkConfig) *nodeipam.PodConfig {
					return podConfig(in, &in.Spec.PodNetworkChoice, string(in.Status.Status))
				},
			}),
		acnv1alpha1.GroupVersion.Group: defineNodeIPAM(acnv1alpha1.GroupVersion.Group, podConfigTable,
			nodeIPAM[*acnv1alpha1.MultiTenantPodNetworkConfig, nodeipam.PodConfig]{
				"MultiTenantPodNetworkConfig", &acnv1alpha1.MultiTenantPodNetworkConfig{}, &acnv1alpha1.MultiTenantPodNetworkConfigList{},
				func(in *acnv1alpha1.MultiTenantPodNetworkConfig) *nodeipam.PodConfig {
					return podConfig(in, &in.Spec, string(in.Status.Status))
				},
			}),
	}
	NodeInfos = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: defineNodeIPAM(multitenancyv1alpha1.GroupVersion.Group, nodeInfoTable,
			nodeIPAM[*multitenancyv1alpha1.NodeInfo, nodeipam.NodeInfo]{
				"NodeInfo", &multitenancyv1alpha1.NodeInfo{}, &multitenancyv1alpha1.NodeInfoList{}, convertNodeInfo,
			}),
		acnv1alpha1.GroupVersion.Group: defineNodeIPAM(acnv1alpha1.GroupVersion.Group, nodeInfoTable,
			nodeIPAM[*acnv1alpha1.NodeInfo, nodeipam.NodeInfo]{
				"NodeInfo", &acnv1alpha1.NodeInfo{}, &acnv1alpha1.NodeInfoList{},
				func(in *acnv1alpha1.NodeInfo) *nodeipam.NodeInfo {
					return &nodeipam.NodeInfo{Meta: values.Meta(in), VMUniqueID: in.Status.VMUniqueID}
				},
			}),
	}
)

// OfGroups lists the kinds of the node IPAM API in some of its groups.
func OfGroups(groups []string) []*descriptor.Kind {
	var list []*descriptor.Kind
	for _, group := range Groups {
		if slices.Contains(groups, group) {
			list = append(list, PodNetworks[group], PodNetworkInstances[group], PodNetworkConfigs[group], NodeInfos[group])
		}
	}
	return list
}

// nodeIPAM is a kind of objects O in a group, with rows R. Convert leaves the Ref to
// defineNodeIPAM.
type nodeIPAM[O kube.Object, R any] struct {
	name    string
	object  O
	list    kube.List
	convert func(O) *R
}

// nodeIPAMTable has the rows R of a kind in all groups.
type nodeIPAMTable[R any] struct {
	get    func(store.ReadTx, nodeipam.Ref) *R
	put    func(store.Tx, *R) error
	remove func(store.Tx, nodeipam.Ref, string) bool
	ref    func(*R) *nodeipam.Ref
	// rows and verdict are nil for a kind without conditions.
	rows    func(store.ReadTx) iter.Seq[*R]
	verdict func(*R) descriptor.Verdict
}

var (
	podNetworkTable = nodeIPAMTable[nodeipam.PodNetwork]{
		get: nodeipam.GetPodNetwork, put: nodeipam.PutPodNetwork, remove: nodeipam.DeletePodNetwork,
		ref: func(row *nodeipam.PodNetwork) *nodeipam.Ref { return &row.Ref }, rows: nodeipam.PodNetworks,
		verdict: func(row *nodeipam.PodNetwork) descriptor.Verdict {
			return descriptor.Verdict{Ready: row.Ready, Reason: row.Reason, Message: row.Message, ID: descriptor.ID{Name: row.Name, UID: row.UID}}
		},
	}
	instanceTable = nodeIPAMTable[nodeipam.Instance]{
		get: nodeipam.GetInstance, put: nodeipam.PutInstance, remove: nodeipam.DeleteInstance,
		ref: func(row *nodeipam.Instance) *nodeipam.Ref { return &row.Ref }, rows: nodeipam.Instances,
		verdict: func(row *nodeipam.Instance) descriptor.Verdict {
			return descriptor.Verdict{
				Ready: row.Ready, Reason: row.Reason, Message: row.Message, ID: descriptor.ID{Namespace: row.Namespace, Name: row.Name, UID: row.UID},
			}
		},
	}
	podConfigTable = nodeIPAMTable[nodeipam.PodConfig]{
		get: nodeipam.GetPodConfig, put: nodeipam.PutPodConfig, remove: nodeipam.DeletePodConfig,
		ref: func(row *nodeipam.PodConfig) *nodeipam.Ref { return &row.Ref },
	}
	nodeInfoTable = nodeIPAMTable[nodeipam.NodeInfo]{
		get: nodeipam.GetNodeInfo, put: nodeipam.PutNodeInfo, remove: nodeipam.DeleteNodeInfo,
		ref: func(row *nodeipam.NodeInfo) *nodeipam.Ref { return &row.Ref },
	}
)

func defineNodeIPAM[O kube.Object, R any](group string, table nodeIPAMTable[R], kind nodeIPAM[O, R]) *descriptor.Kind {
	ref := func(id descriptor.ID) nodeipam.Ref {
		return nodeipam.Ref{Group: group, Namespace: id.Namespace, Name: id.Name}
	}
	return descriptor.Define(&all, descriptor.Description[O, R]{
		Name: kind.name, Object: kind.object, List: kind.list, Optional: true,
		Convert: func(in O) (*R, error) {
			row := kind.convert(in)
			*table.ref(row) = ref(descriptor.IDOf(in))
			return row, nil
		},
		Table: descriptor.Table[R]{
			Get:    func(tx store.ReadTx, id descriptor.ID) *R { return table.get(tx, ref(id)) },
			Put:    table.put,
			Remove: func(tx store.Tx, id descriptor.ID) { table.remove(tx, ref(id), id.UID) },
		},
		Owns: func(row *R) bool { return table.ref(row).Group == group },
		Rows: table.rows, Verdict: table.verdict,
	}).Kind
}
