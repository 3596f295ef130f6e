// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package annotations

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/alioth-net/alioth/api/quote"
)

// EndpointSelectorKey is the annotation of a Service that has the labels of its pods. With
// NetworkKey it is Alioth's own form of the annotations of DANM, which have two prefixes
// (DANM user guide, "Svcwatcher compatible Service descriptors").
const EndpointSelectorKey = "alioth.dev/selector"

// Kinds that a NetworkName can have beside the kinds of a Target.
const (
	// TargetNetwork is a Network, which leads to a VPC.
	TargetNetwork = "Network"
	// TargetDefinition is a NetworkAttachmentDefinition.
	TargetDefinition = "NetworkAttachmentDefinition"
)

const (
	selectorExample = `{"app": "web"}`
	networksByKind  = `web, DanmNet/external or NetworkAttachmentDefinition/tools/lan`
)

// danmPrefixes start the keys of DANM: the prefix up to DANM 4.3, and the prefix of its successors.
var danmPrefixes = []string{"danm.k8s.io/", "danm.io/"}

// danmNetworkKeys are the keys of DANM without their prefix, with the kind that they name.
var danmNetworkKeys = []struct{ key, kind string }{
	{"network", TargetDanmNet}, {"tenantNetwork", TargetTenantNetwork}, {"clusterNetwork", TargetClusterNetwork},
}

// NetworkName names a network whose interfaces give the endpoints of a Service.
type NetworkName struct {
	// Kind is TargetNetwork, TargetDefinition or a kind of a Target.
	Kind string
	// Namespace is "" for the Service's own, and for kinds without one.
	Namespace string
	// Name of the object, a DNS-1123 subdomain.
	Name string
}

// String returns kind/name or kind/namespace/name, as the annotation has it.
func (n NetworkName) String() string {
	if n.Namespace == "" {
		return n.Kind + "/" + n.Name
	}
	return n.Kind + "/" + n.Namespace + "/" + n.Name
}

// Endpoints is the selection by the annotations of a Service.
type Endpoints struct {
	// Selector has the labels that a pod needs, one at least.
	Selector map[string]string
	// Networks whose interfaces count: one at least, none twice, in the order of the annotations.
	Networks []NetworkName
}

// EndpointsOf reads the annotations of a Service. It returns nil if the Service has none
// of them. These are, with both prefixes of DANM:
//
//   - danm.k8s.io/selector: a JSON object with labels; a pod needs all of them.
//   - danm.k8s.io/network, tenantNetwork and clusterNetwork: names of DanmNets,
//     TenantNetworks and ClusterNetworks, separated by commas.
//   - alioth.dev/selector: as the selector of DANM.
//   - alioth.dev/network: names of Networks, or other networks as kind/name, separated by
//     commas. A NetworkAttachmentDefinition of another namespace is
//     NetworkAttachmentDefinition/namespace/name.
//
// A selector and one network at least are needed. An interface in any of the networks
// counts. One annotation with different texts under several prefixes is an error, as are
// an empty selector, which would select all pods, and every text that is not as above.
func EndpointsOf(annotations map[string]string) (*Endpoints, error) {
	selector, by, err := oneText(annotations, append([]string{EndpointSelectorKey}, danmKeys("selector")...))
	if err != nil {
		return nil, err
	}
	networks, naming, err := endpointNetworks(annotations)
	switch {
	case by == "" && naming == "" && err == nil:
		return nil, nil
	case err != nil:
		return nil, err
	case by == "":
		return nil, fmt.Errorf(
			"the annotation %s names networks, and no annotation selects pods: write their labels into %s, for example %s",
			naming,
			prefixOf(naming)+"selector",
			selectorExample,
		)
	case len(networks) == 0:
		example := networksByKind
		if by != EndpointSelectorKey {
			example = "external"
		}
		return nil, fmt.Errorf(
			"the annotation %s selects pods, and no annotation names a network: write one into %s, for example %s",
			by,
			prefixOf(by)+"network",
			example,
		)
	}
	endpoints := &Endpoints{Networks: networks}
	if endpoints.Selector, err = parseSelector(selector); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", by, wanted("JSON object", selectorExample, err))
	}
	return endpoints, nil
}

// prefixOf returns the part of a key up to its slash: the group that the author of an annotation
// uses.
func prefixOf(key string) string {
	group, _, _ := strings.Cut(key, "/")
	return group + "/"
}

func danmKeys(key string) []string {
	keys := make([]string, 0, len(danmPrefixes))
	for _, prefix := range danmPrefixes {
		keys = append(keys, prefix+key)
	}
	return keys
}

// oneText returns the text that annotations have under any of the keys, and the first key that
// they have, "" for none.
func oneText(annotations map[string]string, keys []string) (text, by string, err error) {
	for _, key := range keys {
		other, set := annotations[key]
		if by != "" && set && other != text {
			return "", by, fmt.Errorf("the annotations %s and %s differ: keep one of them", by, key)
		}
		if set && by == "" {
			text, by = other, key
		}
	}
	return text, by, nil
}

// endpointNetworks returns the networks that annotations name, and the first annotation for
// them, "" for none.
func endpointNetworks(annotations map[string]string) (all []NetworkName, by string, err error) {
	if own, found := annotations[NetworkKey]; found {
		by = NetworkKey
		if all, err = namesIn(own, parseNetworkName); err != nil {
			return nil, by, fmt.Errorf("annotation %s: want names of networks such as %s: %w", NetworkKey, networksByKind, err)
		}
	}
	for _, danm := range danmNetworkKeys {
		text, key, err := oneText(annotations, danmKeys(danm.key))
		if err != nil {
			return nil, key, err
		}
		by = cmp.Or(by, key)
		names, err := namesIn(text, func(name string) (NetworkName, error) { return named(danm.kind, name) })
		if err != nil {
			return nil, by, fmt.Errorf("annotation %s: want names of %ss separated by commas: %w", key, danm.kind, err)
		}
		for _, name := range names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if len(all) > maxElements {
		return nil, by, fmt.Errorf("the Service names %d networks, and at most %d are accepted", len(all), maxElements)
	}
	return all, by, nil
}

// namesIn reads a list that is separated by commas. Empty elements name nothing.
func namesIn(text string, parse func(string) (NetworkName, error)) (all []NetworkName, err error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are accepted", len(text), maxText)
	}
	for element := range strings.SplitSeq(text, ",") {
		element = strings.TrimSpace(element)
		if element == "" {
			continue
		}
		name, err := parse(element)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

// parseNetworkName reads name, kind/name or NetworkAttachmentDefinition/namespace/name.
func parseNetworkName(text string) (NetworkName, error) {
	parts := strings.Split(text, "/")
	switch {
	case len(parts) == 1:
		return named(TargetNetwork, text)
	case len(parts) == 2:
		return named(parts[0], parts[1])
	case len(parts) == 3 && parts[0] == TargetDefinition:
		name, err := named(parts[0], parts[2])
		if err != nil {
			return NetworkName{}, err
		}
		if !labelName.MatchString(parts[1]) {
			return NetworkName{}, fmt.Errorf("%s is no name of a namespace", quote.Text(parts[1]))
		}
		name.Namespace = parts[1]
		return name, nil
	}
	return NetworkName{}, fmt.Errorf(
		"%s is no kind/name; only a %s can have a namespace between them",
		quote.Text(text),
		TargetDefinition,
	)
}

// endpointKinds are the kinds of networks that a Service can name.
var endpointKinds = []string{
	TargetNetwork,
	TargetVPC,
	TargetDanmNet,
	TargetTenantNetwork,
	TargetClusterNetwork,
	TargetDefinition,
}

func named(kind, name string) (NetworkName, error) {
	if !slices.Contains(endpointKinds, kind) {
		return NetworkName{}, fmt.Errorf(
			"%s is no kind of network: write one of %s",
			quote.Text(kind),
			strings.Join(endpointKinds, ", "),
		)
	}
	if !isObjectName(name) {
		return NetworkName{}, fmt.Errorf("%s is no object name", quote.Text(name))
	}
	return NetworkName{Kind: kind, Name: name}, nil
}

// parseSelector reads the labels that a pod needs.
func parseSelector(text string) (map[string]string, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := decodeStrict(text, &raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, errors.New("it has no label, and would select all pods: write one at least")
	}
	selector := make(map[string]string, len(raw))
	for key, value := range raw {
		var text string
		if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
			return nil, fmt.Errorf("the value of label %s is no text: write it in quotes", quote.Text(key))
		}
		if wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(text)); len(wrong) > 0 {
			return nil, fmt.Errorf(
				"no pod can have the label %s: %s: %s",
				quote.Text(key),
				quote.Text(text),
				quote.Message(strings.Join(wrong, "; ")),
			)
		}
		selector[key] = text
	}
	return selector, nil
}
