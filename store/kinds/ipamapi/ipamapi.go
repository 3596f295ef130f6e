// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipamapi

import (
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
		multitenancyv1alpha1.GroupVersion.Group: inGroup(multitenancyv1alpha1.GroupVersion.Group, podNetworkTable,
			descriptor.Description[*multitenancyv1alpha1.PodNetwork, nodeipam.PodNetwork]{
				Name: "PodNetwork", Object: &multitenancyv1alpha1.PodNetwork{}, List: &multitenancyv1alpha1.PodNetworkList{},
				Convert: sure(convertPodNetwork),
				Verdict: podNetworkVerdict, Rows: nodeipam.PodNetworks,
			}),
		acnv1alpha1.GroupVersion.Group: inGroup(acnv1alpha1.GroupVersion.Group, podNetworkTable,
			descriptor.Description[*acnv1alpha1.PodNetwork, nodeipam.PodNetwork]{
				Name: "PodNetwork", Object: &acnv1alpha1.PodNetwork{}, List: &acnv1alpha1.PodNetworkList{},
				Convert: sure(func(in *acnv1alpha1.PodNetwork) *nodeipam.PodNetwork {
					return convertPodNetwork((*multitenancyv1alpha1.PodNetwork)(in))
				}),
				Verdict: podNetworkVerdict, Rows: nodeipam.PodNetworks,
			}),
	}
	PodNetworkInstances = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: inGroup(multitenancyv1alpha1.GroupVersion.Group, instanceTable,
			descriptor.Description[*multitenancyv1alpha1.PodNetworkInstance, nodeipam.Instance]{
				Name: "PodNetworkInstance", Object: &multitenancyv1alpha1.PodNetworkInstance{}, List: &multitenancyv1alpha1.PodNetworkInstanceList{},
				Convert: sure(convertInstance),
				Verdict: instanceVerdict, Rows: nodeipam.Instances,
			}),
		acnv1alpha1.GroupVersion.Group: inGroup(acnv1alpha1.GroupVersion.Group, instanceTable,
			descriptor.Description[*acnv1alpha1.PodNetworkInstance, nodeipam.Instance]{
				Name: "PodNetworkInstance", Object: &acnv1alpha1.PodNetworkInstance{}, List: &acnv1alpha1.PodNetworkInstanceList{},
				Convert: sure(func(in *acnv1alpha1.PodNetworkInstance) *nodeipam.Instance {
					return convertInstance((*multitenancyv1alpha1.PodNetworkInstance)(in))
				}),
				Verdict: instanceVerdict, Rows: nodeipam.Instances,
			}),
	}
	PodNetworkConfigs = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: inGroup(multitenancyv1alpha1.GroupVersion.Group, podConfigTable,
			descriptor.Description[*multitenancyv1alpha1.MultitenantPodNetworkConfig, nodeipam.PodConfig]{
				Name: "MultitenantPodNetworkConfig", Object: &multitenancyv1alpha1.MultitenantPodNetworkConfig{},
				List: &multitenancyv1alpha1.MultitenantPodNetworkConfigList{},
				Convert: sure(func(in *multitenancyv1alpha1.MultitenantPodNetworkConfig) *nodeipam.PodConfig {
					return podConfig(in, &in.Spec.PodNetworkChoice, string(in.Status.Status))
				}),
			}),
		acnv1alpha1.GroupVersion.Group: inGroup(acnv1alpha1.GroupVersion.Group, podConfigTable,
			descriptor.Description[*acnv1alpha1.MultiTenantPodNetworkConfig, nodeipam.PodConfig]{
				Name: "MultiTenantPodNetworkConfig", Object: &acnv1alpha1.MultiTenantPodNetworkConfig{}, List: &acnv1alpha1.MultiTenantPodNetworkConfigList{},
				Convert: sure(func(in *acnv1alpha1.MultiTenantPodNetworkConfig) *nodeipam.PodConfig {
					return podConfig(in, &in.Spec, string(in.Status.Status))
				}),
			}),
	}
	NodeInfos = map[string]*descriptor.Kind{
		multitenancyv1alpha1.GroupVersion.Group: inGroup(multitenancyv1alpha1.GroupVersion.Group, nodeInfoTable,
			descriptor.Description[*multitenancyv1alpha1.NodeInfo, nodeipam.NodeInfo]{
				Name: "NodeInfo", Object: &multitenancyv1alpha1.NodeInfo{}, List: &multitenancyv1alpha1.NodeInfoList{},
				Convert: sure(convertNodeInfo),
			}),
		acnv1alpha1.GroupVersion.Group: inGroup(acnv1alpha1.GroupVersion.Group, nodeInfoTable,
			descriptor.Description[*acnv1alpha1.NodeInfo, nodeipam.NodeInfo]{
				Name: "NodeInfo", Object: &acnv1alpha1.NodeInfo{}, List: &acnv1alpha1.NodeInfoList{},
				Convert: sure(func(in *acnv1alpha1.NodeInfo) *nodeipam.NodeInfo {
					return &nodeipam.NodeInfo{Meta: values.Meta(in), VMUniqueID: in.Status.VMUniqueID}
				}),
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

// podNetworkTable has the PodNetworks of a group.
func podNetworkTable(group string) descriptor.Table[nodeipam.PodNetwork] {
	return byRef(group, nodeipam.GetPodNetwork, nodeipam.PutPodNetwork, nodeipam.DeletePodNetwork)
}

func podNetworkVerdict(row *nodeipam.PodNetwork) descriptor.Verdict {
	return descriptor.Verdict{
		Ready:   row.Ready,
		Reason:  row.Reason,
		Message: row.Message,
		ID:      descriptor.ID{Name: row.Name, UID: row.UID},
	}
}

// instanceTable has the PodNetworkInstances of a group.
func instanceTable(group string) descriptor.Table[nodeipam.Instance] {
	return byRef(group, nodeipam.GetInstance, nodeipam.PutInstance, nodeipam.DeleteInstance)
}

func instanceVerdict(row *nodeipam.Instance) descriptor.Verdict {
	return descriptor.Verdict{
		Ready: row.Ready, Reason: row.Reason, Message: row.Message,
		ID: descriptor.ID{Namespace: row.Namespace, Name: row.Name, UID: row.UID},
	}
}

// podConfigTable has the configs of pods of a group.
func podConfigTable(group string) descriptor.Table[nodeipam.PodConfig] {
	return byRef(group, nodeipam.GetPodConfig, nodeipam.PutPodConfig, nodeipam.DeletePodConfig)
}

// nodeInfoTable has the NodeInfos of a group.
func nodeInfoTable(group string) descriptor.Table[nodeipam.NodeInfo] {
	return byRef(group, nodeipam.GetNodeInfo, nodeipam.PutNodeInfo, nodeipam.DeleteNodeInfo)
}

// byRef returns a table whose rows are found by group, namespace and name.
func byRef[R any](
	group string,
	get func(store.ReadTx, nodeipam.Ref) *R,
	put func(store.Tx, *R) error,
	remove func(store.Tx, nodeipam.Ref, string) bool,
) descriptor.Table[R] {
	return descriptor.Table[R]{
		Get:    func(tx store.ReadTx, id descriptor.ID) *R { return get(tx, refOf(group, id)) },
		Put:    put,
		Remove: func(tx store.Tx, id descriptor.ID) { remove(tx, refOf(group, id), id.UID) },
	}
}

func refOf(group string, id descriptor.ID) nodeipam.Ref {
	return nodeipam.Ref{Group: group, Namespace: id.Namespace, Name: id.Name}
}

// sure returns a conversion that never fails.
func sure[O kube.Object, R any](convert func(O) *R) func(O) (*R, error) {
	return func(in O) (*R, error) { return convert(in), nil }
}

// row is a row R of one of the groups.
type row[R any] interface {
	*R
	Reference() *nodeipam.Ref
}

// inGroup defines a kind in a group. Its conversion leaves the Ref to inGroup.
func inGroup[O kube.Object, R any, P row[R]](
	group string, table func(group string) descriptor.Table[R], d descriptor.Description[O, R],
) *descriptor.Kind {
	convert := d.Convert
	d.Convert = func(in O) (*R, error) {
		row, err := convert(in)
		if row != nil {
			*P(row).Reference() = refOf(group, descriptor.IDOf(in))
		}
		return row, err
	}
	d.Optional, d.Table = true, table(group)
	d.Owns = func(row *R) bool { return P(row).Reference().Group == group }
	return descriptor.Define(&all, d).Kind
}
