// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi makes the OpenAPI document of the node IPAM API. Its only source is
// package wire: the table of operations, the types, and their comments.
package openapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

//go:generate go run ./write ../wire ../../../docs/reference/node-ipam-api.openapi.yaml

type object = map[string]any

const header = "# Generated from cnid/nodeipam/wire by cnid/nodeipam/openapi. Run `make generate` after a change.\n"

// Document returns the document as YAML. source is the directory of package wire, which has
// the comments.
func Document(source string) ([]byte, error) {
	comments, err := readComments(source)
	if err != nil {
		return nil, fmt.Errorf("read the comments of package wire: %w", err)
	}
	s := &schemas{comments: comments, components: object{}}
	paths := object{}
	for _, op := range wire.Operations() {
		methods, ok := paths[op.Path].(object)
		if !ok {
			methods = object{}
			paths[op.Path] = methods
		}
		methods[strings.ToLower(op.Method)] = s.operation(op)
	}
	s.of(wire.OrchestratorContext{})
	text, err := yaml.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Node IPAM API", "version": "0.2",
			"description": "Other CNI plugins get the addresses of pods here. The API is that of Azure CNS with Swift V2.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers": servers(),
		"paths":   paths,
		"components": object{"schemas": s.components, "securitySchemes": object{scheme: object{
			"type": "http", "scheme": strings.ToLower(wire.TokenScheme), "description": "over TCP: the content of " + wire.TokenFile,
		}}},
		// The socket needs none.
		"security": []any{object{scheme: []any{}}, object{}},
	})
	return append([]byte(header), text...), err
}

// scheme is the name of how requests over TCP prove themselves.
const scheme = "token"

func servers() []any {
	var list []any
	for _, version := range wire.Versions() {
		list = append(list, object{"url": "http://localhost:10090" + version, "description": "TCP, where it is enabled, with a token; all versions are the same"})
	}
	return append(list, object{"url": "http://localhost", "description": "the unix socket /run/alioth/node-ipam.sock, of root"})
}

func (s *schemas) operation(op wire.Operation) object {
	description := "Codes: " + list(append(slices.Clone(wire.CommonCodes()), op.Codes...)) + "."
	if op.Socket {
		description += " Only at the unix socket."
	}
	o := object{"operationId": op.Name, "summary": op.Summary, "description": description, "responses": s.responses(op)}
	if op.Request != nil {
		o["requestBody"] = object{"required": true, "content": content(s.of(op.Request))}
	}
	if strings.Contains(op.Path, wire.ContainerIDVariable) {
		o["parameters"] = []any{object{
			"name": strings.Trim(wire.ContainerIDVariable, "{}"), "in": "path", "required": true, "schema": object{"type": "string"},
			"description": "the sandbox: CNI_CONTAINERID",
		}}
	}
	return o
}

// list returns codes with their names.
func list(codes []wire.ReturnCode) string {
	slices.Sort(codes)
	var texts []string
	for _, code := range codes {
		texts = append(texts, fmt.Sprintf("%d %s", code, code))
	}
	return strings.Join(texts, ", ")
}

func (s *schemas) responses(op wire.Operation) object {
	own, other := s.of(op.Response), s.of(wire.UnsupportedResponse{})
	responses := object{
		strconv.Itoa(http.StatusOK):               response("the result, also if it is an error", own),
		strconv.Itoa(http.StatusMethodNotAllowed): response("the path has no such method; code 21", other),
		strconv.Itoa(http.StatusNotFound):         response("there is no such path; code 43", other),
	}
	if !op.Socket {
		responses[strconv.Itoa(http.StatusUnauthorized)] = response("over TCP, without the token; code 3", other)
	}
	if op.Request != nil {
		responses[strconv.Itoa(http.StatusBadRequest)] = response("the body can't be read; code 23", own)
		responses[strconv.Itoa(http.StatusRequestEntityTooLarge)] = response("the body has more than 64 KiB; code 23", own)
	}
	return responses
}

func response(description string, schema object) object {
	return object{
		"description": description, "content": content(schema),
		"headers": object{wire.CodeHeader: object{"description": "the name of the code", "schema": object{"type": "string"}}},
	}
}

func content(schema object) object { return object{"application/json": object{"schema": schema}} }
