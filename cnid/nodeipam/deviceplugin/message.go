// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// version is the version of the API.
const version = "v1beta1"

// Numbers of fields in k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
const (
	registerVersion    protowire.Number = 1 // RegisterRequest
	registerEndpoint   protowire.Number = 2
	registerResource   protowire.Number = 3
	listedDevices      protowire.Number = 1 // ListAndWatchResponse
	deviceID           protowire.Number = 1 // Device
	deviceHealth       protowire.Number = 2
	allocateContainers protowire.Number = 1 // AllocateRequest, AllocateResponse
)

// healthy is the health of a device that pods can have.
const healthy = "Healthy"

func appendText(to []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), text)
}

// registration returns the message RegisterRequest. Its options are all off: the kubelet asks for
// no preference, and does not announce the start of containers.
func registration(endpoint, resource string) []byte {
	return appendText(
		appendText(appendText(nil, registerVersion, version), registerEndpoint, endpoint),
		registerResource,
		resource,
	)
}

// listed returns the message ListAndWatchResponse with so many devices. Their IDs say nothing
// about Ethernet addresses: the operator chooses these.
func listed(count int) []byte {
	var text []byte
	for i := range count {
		device := appendText(appendText(nil, deviceID, fmt.Sprintf("nic-%d", i)), deviceHealth, healthy)
		text = protowire.AppendBytes(protowire.AppendTag(text, listedDevices, protowire.BytesType), device)
	}
	return text
}

// allocated returns the message AllocateResponse to an AllocateRequest: for each container that
// nothing is to be changed, because the CNI plugin moves the device.
func allocated(request []byte) ([]byte, error) {
	var text []byte
	for len(request) > 0 {
		number, kind, n := protowire.ConsumeTag(request)
		if n < 0 {
			return nil, fmt.Errorf("read the request of the kubelet: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, request[n:])
		if size < 0 {
			return nil, fmt.Errorf("read the request of the kubelet: %w", protowire.ParseError(size))
		}
		request = request[n+size:]
		if number == allocateContainers {
			text = protowire.AppendBytes(protowire.AppendTag(text, allocateContainers, protowire.BytesType), nil)
		}
	}
	if text == nil {
		return nil, errors.New("the request of the kubelet names no container")
	}
	return text, nil
}
