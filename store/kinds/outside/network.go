// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Network is a kind of networks outside of every VPC, in one API group.
type Network struct {
	*descriptor.Kind
	Group string
	networkObjects
}

// networkObjects reads objects of one kind of networks.
type networkObjects interface {
	// Fields returns spec and status of an object of the kind.
	Fields(object kube.Object) (*danmv1.NetworkSpec, *danmv1.NetworkStatus)
	// Convert returns the row of an object of the kind.
	Convert(object kube.Object) *multinet.Network
}

// Ref names a network of the kind.
func (k Network) Ref(namespace, name string) multinet.Ref {
	return multinet.Ref{Group: k.Group, Kind: k.Name, Namespace: namespace, Name: name}
}

// Config is the kind of TenantConfigs in one API group.
type Config struct {
	*descriptor.Kind
	Group string
	configObjects
}

// configObjects reads TenantConfigs of one group.
type configObjects interface {
	// Status returns the status of an object of the kind.
	Status(object kube.Object) *danmv1.TenantConfigStatus
	// Convert returns the row of an object of the kind.
	Convert(object kube.Object) *multinet.TenantConfig
}

// Networks are the kinds of networks outside of every VPC, in both API groups. TenantConfigs are
// the kinds of TenantConfigs, in both API groups. The groups share tables.
var (
	Networks = slices.Concat(
		inGroup(
			danmv1.GroupVersion.Group,
			group[*danmv1.DanmNet]{
				multinet.KindDanmNet,
				&danmv1.DanmNet{},
				&danmv1.DanmNetList{},
				func(o *danmv1.DanmNet) fields { return fields{&o.Spec, &o.Status} },
			},
			group[*danmv1.TenantNetwork]{
				multinet.KindTenantNetwork,
				&danmv1.TenantNetwork{},
				&danmv1.TenantNetworkList{},
				func(o *danmv1.TenantNetwork) fields { return fields{&o.Spec, &o.Status} },
			},
			group[*danmv1.ClusterNetwork]{
				multinet.KindClusterNetwork,
				&danmv1.ClusterNetwork{},
				&danmv1.ClusterNetworkList{},
				func(o *danmv1.ClusterNetwork) fields { return fields{&o.Spec, &o.Status} },
			},
		),
		inGroup(
			danmiov1.GroupVersion.Group,
			group[*danmiov1.DanmNet]{
				multinet.KindDanmNet,
				&danmiov1.DanmNet{},
				&danmiov1.DanmNetList{},
				func(o *danmiov1.DanmNet) fields { return fields{&o.Spec, &o.Status} },
			},
			group[*danmiov1.TenantNetwork]{
				multinet.KindTenantNetwork,
				&danmiov1.TenantNetwork{},
				&danmiov1.TenantNetworkList{},
				func(o *danmiov1.TenantNetwork) fields { return fields{&o.Spec, &o.Status} },
			},
			group[*danmiov1.ClusterNetwork]{
				multinet.KindClusterNetwork,
				&danmiov1.ClusterNetwork{},
				&danmiov1.ClusterNetworkList{},
				func(o *danmiov1.ClusterNetwork) fields { return fields{&o.Spec, &o.Status} },
			},
		),
	)
	TenantConfigs = []Config{
		defineConfig(
			danmv1.GroupVersion.Group,
			&danmv1.TenantConfig{},
			&danmv1.TenantConfigList{},
			func(o *danmv1.TenantConfig) config {
				return config{o.HostDevices, o.NetworkIDs, &o.Status}
			},
		),
		defineConfig(
			danmiov1.GroupVersion.Group,
			&danmiov1.TenantConfig{},
			&danmiov1.TenantConfigList{},
			func(o *danmiov1.TenantConfig) config {
				return config{o.HostDevices, o.NetworkIDs, &o.Status}
			},
		),
	}
)

// fields are the common fields of all kinds of networks.
type fields struct {
	spec   *danmv1.NetworkSpec
	status *danmv1.NetworkStatus
}

// group is a kind of networks O in a group.
type group[O kube.Object] struct {
	name   string
	object O
	list   kube.List
	fields func(O) fields
}

// defined makes a kind of a group.
type defined interface {
	define(group string) Network
}

func inGroup(name string, all ...defined) []Network {
	var made []Network
	for _, one := range all {
		made = append(made, one.define(name))
	}
	return made
}

func (g group[O]) define(name string) Network {
	objects := networksIn[O]{g, name}
	kind := descriptor.Define(&all, descriptor.Description[O, multinet.Network]{
		Name: g.name, Object: g.object, List: g.list, Optional: true,
		Convert: func(in O) (*multinet.Network, error) { return objects.Convert(in), nil },
		Table: descriptor.Table[multinet.Network]{
			Get:    func(tx store.ReadTx, id descriptor.ID) *multinet.Network { return multinet.Get(tx, objects.ref(id)) },
			Put:    multinet.Put,
			Remove: func(tx store.Tx, id descriptor.ID) { multinet.Delete(tx, objects.ref(id), id.UID) },
		},
		Owns: func(row *multinet.Network) bool { return row.Kind == g.name && row.Group == name },
		Verdict: func(row *multinet.Network) descriptor.Verdict {
			return descriptor.Verdict{
				ID: descriptor.ID{
					Namespace: row.Namespace,
					Name:      row.Name,
					UID:       row.UID,
				}, Ready: row.Ready, Reason: row.Reason, Message: row.Message,
			}
		},
		Rows: multinet.Networks,
	})
	return Network{kind.Kind, name, objects}
}

// networksIn reads networks O of a group.
type networksIn[O kube.Object] struct {
	group[O]
	groupName string
}

// ref names a network of the kind.
func (n networksIn[O]) ref(id descriptor.ID) multinet.Ref {
	return multinet.Ref{Group: n.groupName, Kind: n.name, Namespace: id.Namespace, Name: id.Name}
}

// Fields implements networkObjects.
func (n networksIn[O]) Fields(object kube.Object) (*danmv1.NetworkSpec, *danmv1.NetworkStatus) {
	f := n.fields(object.(O))
	return f.spec, f.status
}

// Convert implements networkObjects.
func (n networksIn[O]) Convert(object kube.Object) *multinet.Network {
	spec, status := n.Fields(object)
	return outsideNetwork(object, n.ref(descriptor.IDOf(object)), spec, status)
}

// outsideNetwork converts a network. It never fails: Invalid describes unusable parts.
func outsideNetwork(
	in metav1.Object,
	ref multinet.Ref,
	spec *danmv1.NetworkSpec,
	status *danmv1.NetworkStatus,
) *multinet.Network {
	var invalid values.Faults
	spec, profiled, given := profiledSpec(ref.Kind, spec, status)
	row := &multinet.Network{
		Profiled: profiled, NetworkIDGiven: given,
		Meta: values.Meta(in), Ref: ref,
		NetworkID: invalid.Text(
			"NetworkID",
			spec.NetworkID,
		), Type: lowerOr(invalid.Text("NetworkType", spec.NetworkType), multinet.TypeIPVLAN),
		AllowedNamespaces: invalid.Texts(
			"AllowedTenants",
			spec.AllowedTenants,
		), Prefix: invalid.Text("container_prefix", spec.Options.ContainerPrefix),
	}
	row.Ready, row.Reason, row.Message = values.Readiness(status.Conditions)
	row.Unexamined = row.Ready && (!row.Placed() || !isExamined(in, status))
	if conflict := meta.FindStatusCondition(status.Conditions, v1alpha1.NameConflictCondition); conflict != nil {
		row.NameConflict = quote.Message(conflict.Message)
	}
	readHost(row, spec, &invalid)
	readMode(row, in.GetAnnotations(), &invalid)
	readVF(row, in.GetAnnotations(), &invalid)
	readRanges(row, &spec.Options, &invalid)
	row.Invalid = invalid.String()
	return row
}

// isExamined reports whether the condition Ready is about the present specification.
func isExamined(in metav1.Object, status *danmv1.NetworkStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ReadyCondition)
	return ready != nil && ready.ObservedGeneration == in.GetGeneration()
}

// profiledSpec returns the spec of a network with the values of a TenantNetwork's profile.
// profiled reports a profile, given a NetworkID from it. Before the status had a profile, the
// operator wrote the profile into the spec, and the condition alone told of it.
func profiledSpec(
	kind string,
	spec *danmv1.NetworkSpec,
	status *danmv1.NetworkStatus,
) (with *danmv1.NetworkSpec, profiled, given bool) {
	if kind != multinet.KindTenantNetwork || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ProfileCondition) {
		return spec, false, false
	}
	p := status.Profile
	if p == nil {
		return spec, true, false
	}
	now, then := lowerOr(spec.NetworkType, multinet.TypeIPVLAN), lowerOr(p.NetworkType, multinet.TypeIPVLAN)
	if now != then && (!multinet.Dynamic(now) || !multinet.Dynamic(then)) {
		return spec, false, false // the profile is for another type
	}
	copied := *spec
	o := &copied.Options
	o.HostDevice, o.DevicePool, o.VLAN, o.VXLAN = p.HostDevice, p.DevicePool, p.VLAN, p.VXLAN
	if p.NetworkIDGiven && now == then {
		copied.NetworkID, given = p.NetworkID, true
	}
	return &copied, true, given
}

func lowerOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return strings.ToLower(text)
}

// HostVNIClaim is the kind of a number of a TenantConfig that a network holds.
var HostVNIClaim = descriptor.Define(&all, descriptor.Description[*v1alpha1.HostVNIClaim, multinet.HostVNIClaim]{
	Name: "HostVNIClaim", Object: &v1alpha1.HostVNIClaim{}, List: &v1alpha1.HostVNIClaimList{}, Convert: convertHostVNIClaim,
	Optional: true,
	Table:    descriptor.ByName(multinet.GetHostVNIClaim, multinet.PutHostVNIClaim, multinet.DeleteHostVNIClaim),
})

// convertHostVNIClaim converts a HostVNIClaim.
func convertHostVNIClaim(in *v1alpha1.HostVNIClaim) (*multinet.HostVNIClaim, error) {
	if err := values.Known("spec.type", in.Spec.Type, multinet.VLAN, multinet.VXLAN); err != nil {
		return nil, fmt.Errorf("convert HostVNIClaim %s: %w", in.Name, err)
	}
	of := in.Spec.Network
	return &multinet.HostVNIClaim{
		Meta: values.Meta(in), Name: in.Name, Type: in.Spec.Type, VNI: uint32(in.Spec.VNI), Device: in.Spec.Device,
		Network: multinet.Ref{Group: of.Group, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}, NetworkUID: of.UID,
	}, nil
}
