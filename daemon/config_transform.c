#include "config_transform.h"

#include <errno.h>
#include <string.h>

#include "image/transform.h"

int config_three(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    double values[3];
    int rc = config_yaml_doubles(yaml, node, key, values, 3);
    for (int i = 0; rc == 0 && i < 3; i++)
        ((float *)target)[i] = (float)values[i];
    return rc;
}

static int parse_pair(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    return config_yaml_doubles(yaml, node, key, target, 2);
}

/* One number or [height, width]; width 0 stands for one number. */
static int parse_size(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct transform_op *op = target;
    op->width = 0;
    if (node->type != YAML_SEQUENCE_NODE)
        return config_yaml_u32(yaml, node, key, &op->height);
    const yaml_node_item_t *items = node->data.sequence.items.start;
    if (node->data.sequence.items.top - items != 2)
        return config_yaml_error(yaml, node, key, "must be one number or [height, width]");
    int rc =
        config_yaml_u32(yaml, yaml_document_get_node(&yaml->document, items[0]), key, &op->height);
    if (rc)
        return rc;
    rc = config_yaml_u32(yaml, yaml_document_get_node(&yaml->document, items[1]), key, &op->width);
    if (rc == 0 && op->width == 0)
        return config_yaml_error(yaml, node, key, "width must be at least 1");
    return rc;
}

static int parse_filter(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    if (strcmp(text, "bilinear") && strcmp(text, "bicubic"))
        return config_yaml_error(yaml, node, key, "\"%s\": known are bilinear and bicubic", text);
    *(enum filter *)target = strcmp(text, "bicubic") ? FILTER_BILINEAR : FILTER_BICUBIC;
    return 0;
}

#define OP(member) offsetof(struct transform_op, member)

static const struct config_key crop_keys[] = {
    {"size", parse_size, 0},
    {"scale", parse_pair, OP(scale)},
    {"ratio", parse_pair, OP(ratio)},
    {"interpolation", parse_filter, OP(filter)},
};
static const struct config_key resize_keys[] = {
    {"size", parse_size, 0},
    {"max_size", config_yaml_u32, OP(max_size)},
    {"interpolation", parse_filter, OP(filter)},
};
static const struct config_key center_keys[] = {{"size", parse_size, 0}};
static const struct config_key flip_keys[] = {{"p", config_yaml_double, OP(probability)}};
static const struct config_key normalize_keys[] = {
    {"mean", config_three, OP(mean)},
    {"std", config_three, OP(std)},
};

/* short_form: what a bare value means, as in {flip: 0.5}; square: one number is a square. */
static const struct op_name {
    const char *name;
    struct transform_op defaults;
    const struct config_key *keys;
    size_t nkeys;
    const struct config_key *short_form;
    bool square;
} op_names[] = {
    {"random_resized_crop",
     {.kind = OP_RANDOM_RESIZED_CROP,
      .height = 224,
      .scale = {0.08, 1.0},
      .ratio = {3.0 / 4.0, 4.0 / 3.0}},
     crop_keys,
     4,
     &crop_keys[0],
     true},
    {"resize", {.kind = OP_RESIZE, .height = 256}, resize_keys, 3, &resize_keys[0], false},
    {"center_crop", {.kind = OP_CENTER_CROP, .height = 224}, center_keys, 1, &center_keys[0], true},
    {"flip", {.kind = OP_FLIP, .probability = 0.5}, flip_keys, 1, &flip_keys[0], false},
    {"normalize", {.kind = OP_NORMALIZE, .std = {1, 1, 1}}, normalize_keys, 2, NULL, false},
};

static const struct op_name *find_op(const char *name)
{
    for (size_t i = 0; i < sizeof op_names / sizeof *op_names; i++)
        if (strcmp(op_names[i].name, name) == 0)
            return &op_names[i];
    return NULL;
}

static int parse_settings(struct config_yaml *yaml, yaml_node_t *value, const struct op_name *known,
                          struct transform_op *op)
{
    if (value->type == YAML_MAPPING_NODE)
        return config_yaml_map(yaml, value, known->name, known->keys, known->nkeys, op, NULL);
    if (!known->short_form)
        return config_yaml_error(yaml, value, known->name, "must be a mapping of its settings");
    return known->short_form->parse(yaml, value, known->name,
                                    (char *)op + known->short_form->offset);
}

static int parse_op(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct transform *transform = target;
    const char *name;
    yaml_node_t *value = NULL;
    if (!config_yaml_single(yaml, node, &name, &value) &&
        !(name = config_yaml_text(yaml, node, key)))
        return -EINVAL;
    const struct op_name *known = find_op(name);
    if (!known)
        return config_yaml_error(yaml, node, key,
                                 "\"%s\" is no operation; known are random_resized_crop, resize, "
                                 "center_crop, flip, normalize",
                                 name);
    if (transform->count == TRANSFORM_OPS_MAX)
        return config_yaml_error(yaml, node, key, "more than %d operations", TRANSFORM_OPS_MAX);
    struct transform_op *op = &transform->ops[transform->count];
    *op = known->defaults;
    int rc = value ? parse_settings(yaml, value, known, op) : 0;
    if (rc)
        return rc;
    if (known->square && op->width == 0)
        op->width = op->height;
    transform->count++;
    return 0;
}

int config_transform(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    struct transform *transform = target;
    if (node->type != YAML_SCALAR_NODE) {
        transform->count = 0;
        return config_yaml_each(yaml, node, key, parse_op, transform);
    }
    struct error reason;
    if (transform_preset(transform, (const char *)node->data.scalar.value, &reason))
        return config_yaml_error(yaml, node, key, "%s", reason.text);
    return 0;
}

int config_output(struct config_yaml *yaml, yaml_node_t *node, const char *key, void *target)
{
    static const char *const names[] = {[PIXELS_U8_NHWC] = "uint8_nhwc",
                                        [PIXELS_U8_NCHW] = "uint8_nchw",
                                        [PIXELS_F32_NCHW] = "float32_nchw",
                                        [PIXELS_F16_NCHW] = "float16_nchw",
                                        [PIXELS_BF16_NCHW] = "bfloat16_nchw"};
    const char *text = config_yaml_text(yaml, node, key);
    if (!text)
        return -EINVAL;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) == 0) {
            *(enum pixels *)target = (enum pixels)i;
            return 0;
        }
    }
    return config_yaml_error(
        yaml, node, key,
        "\"%s\": known are uint8_nhwc, uint8_nchw, float32_nchw, float16_nchw, "
        "bfloat16_nchw",
        text);
}
