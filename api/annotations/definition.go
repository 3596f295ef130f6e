// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/api/quote"
)

// Annotations of a NetworkAttachmentDefinition.
const (
	// NetworkKey names the network that the definition stands for, so that no CNI
	// plugin is called for it (NPWG multi-network specification 1.3, section 3.2). On a
	// Service it lists the networks of its endpoints (EndpointsOf).
	NetworkKey = "alioth.dev/network"
	// KuryrConfigKey names a subnet. It is the annotation of Kuryr, read as an alias of
	// NetworkKey.
	KuryrConfigKey = "openstack.org/kuryr-config"
	// ResourceNameKey names the extended resource that has the devices of the network.
	ResourceNameKey = "k8s.v1.cni.cncf.io/resourceName"
)

const (
	networkExample = `{"vpc": "blue", "subnet": "net1"} or {"tenantNetwork": "internal"}`
	kuryrExample   = `{"subnetId": "net1"}`
)

// resourceName is a name with a domain in front (Kubernetes, "Extended resources").
var resourceName = regexp.MustCompile(
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`,
)

// Definition is the content of the annotations of a NetworkAttachmentDefinition.
type Definition struct {
	// Target is the network that the definition stands for; the zero value if a CNI
	// plugin makes its interfaces. With KuryrConfigKey it is a VPC without a name, and
	// a subnet.
	Target Target
	// ResourceName is the extended resource that has its devices, for example
	// vendor.example/nic; "" for none.
	ResourceName string
	// VF has the settings of interfaces on virtual functions. Target names a network then.
	VF netif.VF
}

type kuryrJSON struct {
	SubnetID   *string `json:"subnetId"`
	DriverType *string `json:"driverType"`
}

// DefinitionOf reads the annotations of a NetworkAttachmentDefinition. Both
// NetworkKey and KuryrConfigKey together are an error, and so are unknown keys, keys in
// another case, keys written twice, and text behind the object.
func DefinitionOf(annotations map[string]string) (Definition, error) {
	d := Definition{ResourceName: annotations[ResourceNameKey]}
	if name, set := annotations[ResourceNameKey]; set && (len(name) > 253+1+63 || !resourceName.MatchString(name)) {
		return Definition{}, fmt.Errorf(
			"annotation %s: %s is no extended resource such as vendor.example/nic",
			ResourceNameKey,
			quote.Text(name),
		)
	}
	text, own := annotations[NetworkKey]
	config, kuryr := annotations[KuryrConfigKey]
	var err error
	switch {
	case own && kuryr:
		err = fmt.Errorf("the annotations %s and %s both name a network: keep one of them", NetworkKey, KuryrConfigKey)
	case own:
		if d.Target, err = parseTarget(text); err != nil {
			err = fmt.Errorf("annotation %s: %w", NetworkKey, wanted("JSON object", networkExample, err))
		}
	case kuryr:
		if d.Target, err = parseKuryrConfig(config); err != nil {
			err = fmt.Errorf("annotation %s: %w", KuryrConfigKey, wanted("JSON object", kuryrExample, err))
		}
	}
	if err != nil {
		return Definition{}, err
	}
	return d, d.readVF(annotations)
}

func (d *Definition) readVF(annotations map[string]string) (err error) {
	text, given := annotations[VFKey]
	switch {
	case !given:
		return nil
	case d.Target.Kind == "" || d.Target.Kind == TargetVPC:
		return fmt.Errorf(
			"the annotation %s is for definitions that name a network of type sriov: name one in %s, or remove it",
			VFKey,
			NetworkKey,
		)
	}
	d.VF, err = ParseVF(text)
	return err
}

func parseTarget(text string) (Target, error) {
	var raw targetJSON
	if err := decodeStrict(text, &raw); err != nil {
		return Target{}, err
	}
	return raw.read()
}

// parseKuryrConfig ignores driverType, which selects a driver of Kuryr.
func parseKuryrConfig(text string) (Target, error) {
	var raw kuryrJSON
	if err := decodeStrict(text, &raw); err != nil {
		return Target{}, err
	}
	target := Target{Kind: TargetVPC, Subnet: value(raw.SubnetID)}
	if target.Subnet == "" {
		return Target{}, errors.New(`"subnetId" is missing: name the subnet`)
	}
	return target, checkSubnet(target)
}
