// A complete reader under test for Iceberg tables with iceberg-go. It supports time travel, filters and counts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

type request struct {
	ID               int
	Op, Output       string
	Columns          []string
	Where, Predicate json.RawMessage
	Table            struct {
		Format   string
		Metadata string `json:"metadata_path"`
		At       struct {
			Kind  string
			Value json.RawMessage
		}
	}
}

// scan returns the scan of the requested rows.
func scan(ctx context.Context, asked request) (*table.Scan, error) {
	if asked.Table.Format != "iceberg" {
		return nil, fmt.Errorf("%w: only Iceberg tables", iceberg.ErrNotImplemented)
	}
	place := asked.Table.Metadata
	opened, err := table.NewFromLocation(ctx, nil, place, io.LoadFSFunc(nil, place), nil)
	if err != nil {
		return nil, err
	}
	var number int64
	ref, at := table.MainBranch, asked.Table.At
	options := []table.ScanOption{}
	switch at.Kind {
	case "ref":
		err = json.Unmarshal(at.Value, &ref)
	case "snapshot_id":
		err = json.Unmarshal(at.Value, &number)
		options = append(options, table.WithSnapshotID(number))
	case "timestamp_ms":
		err = json.Unmarshal(at.Value, &number)
		options = append(options, table.WithSnapshotAsOf(number))
	}
	if err != nil {
		return nil, err
	}
	found, err := opened.Scan(options...).UseRef(ref)
	if err != nil {
		return nil, err
	}
	if string(asked.Where) != "null" {
		if string(asked.Predicate) == "null" {
			return nil, fmt.Errorf("%w: no expression of Iceberg says %s", iceberg.ErrNotImplemented, asked.Where)
		}
		schema, err := found.Projection()
		if err != nil {
			return nil, err
		}
		filter, err := iceberg.ParseExpr(asked.Predicate, schema)
		if err != nil {
			return nil, err
		}
		table.WithRowFilter(filter)(found)
	}
	if asked.Columns != nil {
		table.WithSelectedFields(asked.Columns...)(found)
	}
	return found, nil
}

// write writes the rows to the file, with the columns in the requested order.
func write(rows arrow.Table, asked request) error {
	schema := rows.Schema()
	if asked.Columns != nil {
		fields, columns := []arrow.Field{}, []arrow.Column{}
		for _, name := range asked.Columns {
			place := schema.FieldIndices(name)[0]
			fields = append(fields, schema.Field(place))
			columns = append(columns, *rows.Column(place))
		}
		schema = arrow.NewSchema(fields, nil)
		rows = array.NewTable(schema, columns, rows.NumRows())
	}
	file, err := os.Create(asked.Output)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := ipc.NewWriter(file, ipc.WithSchema(schema))
	for batches := array.NewTableReader(rows, -1); batches.Next() && err == nil; {
		err = writer.Write(batches.RecordBatch())
	}
	return errors.Join(err, writer.Close())
}

// answer returns the answer to a request after the first.
func answer(asked request) (said map[string]any) {
	defer func() {
		if panicked := recover(); panicked != nil {
			said = map[string]any{"id": asked.ID, "error": "panic", "message": fmt.Sprint(panicked), "panic": true}
		}
	}()
	ctx := context.Background()
	found, err := scan(ctx, asked)
	var rows arrow.Table
	if err == nil {
		rows, err = found.ToArrowTable(ctx)
	}
	if err == nil && asked.Op == "count" {
		return map[string]any{"id": asked.ID, "count": rows.NumRows()}
	}
	if err == nil {
		err = write(rows, asked)
	}
	if errors.Is(err, iceberg.ErrNotImplemented) {
		return map[string]any{"id": asked.ID, "unsupported": err.Error()}
	}
	if err != nil {
		return map[string]any{"id": asked.ID, "error": fmt.Sprintf("%T", err), "message": err.Error()}
	}
	return map[string]any{"id": asked.ID, "rows": asked.Output}
}

// version returns the version of iceberg-go from the build information.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/apache/iceberg-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}

func main() {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked request
		if requests.Decode(&asked) != nil {
			return
		}
		if asked.Op == "hello" {
			answers.Encode(map[string]any{"version": version(), "language": "Go",
				"homepage": "https://go.iceberg.apache.org", "ops": []string{"read", "count"}})
		} else {
			answers.Encode(answer(asked))
		}
	}
}
