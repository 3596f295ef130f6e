// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"cmp"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// ByPeople are the kinds whose spec people write, in the order of the page. ByMachine are the kinds
// that only operator and daemons write.
var (
	ByPeople = []string{
		"VPC", "Subnet", "Network", "SharedService", "ExternalPool", "HostAccess",
		"DanmNet", "TenantNetwork", "ClusterNetwork", "TenantConfig", "NetworkAttachmentDefinition", "DelegationGrant",
		"NodeNetworkConfigurationPolicy", "NodeNetConfPolicy", "NodeNetworkState", "PodNetwork", "PodNetworkInstance",
	}
	ByMachine = []string{
		"Address", "AttachmentClaim", "VNIClaim", "PolicyIdentity", "ExternalAddress", "DomainClaim", "HostVNIClaim", "Usage", "AdmissionGrants", "ScaledEndpoint",
		"RoleMember", "NodeRoles", "RollCall", "HostLink", "HostLinkReport", "NodeNetworkConfigurationEnactment",
		"MultitenantPodNetworkConfig", "MultiTenantPodNetworkConfig", "NodeInfo",
	}
)

// kind is a kind in all groups and versions that have the same schema.
type kind struct {
	apiextensionsv1.CustomResourceDefinitionNames
	scope apiextensionsv1.ResourceScope
	// served are group/version, the stored one first.
	served  []string
	version apiextensionsv1.CustomResourceDefinitionVersion
}

// kinds reads CustomResourceDefinitions, in the order of the page.
func kinds(files fs.FS) (list []*kind, err error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if order(crd.Spec.Names.Kind) < 0 {
			return nil, fmt.Errorf("%s: the kind %s is neither in ByPeople nor in ByMachine", name, crd.Spec.Names.Kind)
		}
		list = appendKind(list, crd)
	}
	slices.SortStableFunc(list, func(a, b *kind) int { return cmp.Compare(order(a.Kind), order(b.Kind)) })
	return list, nil
}

func order(name string) int { return slices.Index(slices.Concat(ByPeople, ByMachine), name) }

// appendKind adds the versions of a definition, each to the kind that has its schema already.
func appendKind(list []*kind, crd *apiextensionsv1.CustomResourceDefinition) []*kind {
	versions := slices.Clone(crd.Spec.Versions)
	slices.SortStableFunc(versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		return cmp.Compare(rank(a), rank(b))
	})
	for _, version := range versions {
		served := crd.Spec.Group + "/" + version.Name
		same := slices.IndexFunc(list, func(k *kind) bool {
			return k.Kind == crd.Spec.Names.Kind && reflect.DeepEqual(fieldsOf(k.version), fieldsOf(version))
		})
		if same >= 0 {
			list[same].served = append(list[same].served, served)
			continue
		}
		list = append(
			list,
			&kind{
				CustomResourceDefinitionNames: crd.Spec.Names,
				scope:                         crd.Spec.Scope,
				served:                        []string{served},
				version:                       version,
			},
		)
	}
	return list
}

// resource returns the name of the kind for kubectl. Several groups have kinds of one name, and
// without the group kubectl looks at one of them only.
func (k *kind) resource() string {
	group, _, _ := strings.Cut(k.served[0], "/")
	return k.Plural + "." + group
}

func rank(version apiextensionsv1.CustomResourceDefinitionVersion) int {
	if version.Storage {
		return 0
	}
	return 1
}
