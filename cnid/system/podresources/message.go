// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Devices are the IDs of devices by the name of their extended resource, sorted.
type Devices map[string][]string

// Numbers of fields in k8s.io/kubelet/pkg/apis/podresources/v1/api.proto. Fields with other
// numbers are skipped.
const (
	requestName      protowire.Number = 1 // GetPodResourcesRequest
	requestNamespace protowire.Number = 2
	responsePods     protowire.Number = 1 // GetPodResourcesResponse, ListPodResourcesResponse
	podName          protowire.Number = 1 // PodResources
	podNamespace     protowire.Number = 2
	podContainers    protowire.Number = 3
	containerDevices protowire.Number = 2 // ContainerResources
	devicesResource  protowire.Number = 1 // ContainerDevices
	devicesIDs       protowire.Number = 2
)

// podResources is a message PodResources.
type podResources struct {
	name, namespace string
	devices         Devices
}

func pod(namespace, name string) podResources { return podResources{name: name, namespace: namespace} }

// request returns the message GetPodResourcesRequest for a pod.
func (p podResources) request() []byte {
	text := protowire.AppendString(protowire.AppendTag(nil, requestName, protowire.BytesType), p.name)
	return protowire.AppendString(protowire.AppendTag(text, requestNamespace, protowire.BytesType), p.namespace)
}

// readGet reads the devices of the one pod of a GetPodResourcesResponse.
func readGet(text []byte) (Devices, error) {
	var p podResources
	err := fields(text, func(number protowire.Number, value []byte) error {
		if number != responsePods {
			return nil
		}
		return p.read(value)
	})
	return p.sorted(), err
}

// readList reads the devices of a pod of a ListPodResourcesResponse.
func readList(text []byte, namespace, name string) (Devices, error) {
	var devices Devices
	err := fields(text, func(number protowire.Number, value []byte) error {
		if number != responsePods {
			return nil
		}
		var p podResources
		err := p.read(value)
		if err == nil && p.namespace == namespace && p.name == name {
			devices = p.sorted()
		}
		return err
	})
	return devices, err
}

func (p *podResources) sorted() Devices {
	for _, ids := range p.devices {
		slices.Sort(ids)
	}
	return p.devices
}

func (p *podResources) read(text []byte) error {
	return fields(text, func(number protowire.Number, value []byte) error {
		switch number {
		case podName:
			p.name = string(value)
		case podNamespace:
			p.namespace = string(value)
		case podContainers:
			return p.readContainer(value)
		}
		return nil
	})
}

func (p *podResources) readContainer(text []byte) error {
	return fields(text, func(number protowire.Number, value []byte) error {
		if number != containerDevices {
			return nil
		}
		return p.readDevices(value)
	})
}

// readDevices adds the devices of a ContainerDevices. A resource has one for each NUMA
// node.
func (p *podResources) readDevices(text []byte) error {
	var resource string
	var ids []string
	err := fields(text, func(number protowire.Number, value []byte) error {
		switch number {
		case devicesResource:
			resource = string(value)
		case devicesIDs:
			ids = append(ids, string(value))
		}
		return nil
	})
	if len(ids) > 0 {
		if p.devices == nil {
			p.devices = Devices{}
		}
		p.devices[resource] = append(p.devices[resource], ids...)
	}
	return err
}

// fields calls f for the fields of a message that are texts or messages, in their order.
func fields(text []byte, f func(protowire.Number, []byte) error) error {
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return fmt.Errorf("read the answer of the kubelet: %w", protowire.ParseError(n))
		}
		text = text[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, text); n < 0 {
				return fmt.Errorf("read the answer of the kubelet: %w", protowire.ParseError(n))
			}
			text = text[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(text)
		if n < 0 {
			return fmt.Errorf("read the answer of the kubelet: %w", protowire.ParseError(n))
		}
		if err := f(number, value); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}
