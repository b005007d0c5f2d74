/* Sums of consecutive rows in one pass over them. `sums.py` calls this, and does the same with numpy
 * where this file was not compiled. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

#define ONE 0x3FF0000000000000u /* the bits of 1.0 */

/* Adds the rows from starts[i] up to stops[i] into row i of out. With first (one row) sums run on:
 * each begins with the one before it, and that of piece 0 with first. Returns 0 only if every number
 * lies in [0, 1]: then its bits are at most those of 1.0, and neither they nor ONE - bits have a
 * sign. */
FAST static uint64_t add(const double *rows, const int64_t *starts, const int64_t *stops,
                         Py_ssize_t pieces, Py_ssize_t width, const double *first,
                         double *restrict out)
{
    uint64_t outside = 0;
    for (Py_ssize_t piece = 0; piece < pieces; piece++, out += width) {
        const double *restrict row = rows + starts[piece] * width;
        const double *end = rows + stops[piece] * width;
        if (first == NULL)
            memset(out, 0, width * sizeof(double));
        else
            memcpy(out, piece ? out - width : first, width * sizeof(double));
        for (; row < end; row += width)
            for (Py_ssize_t i = 0; i < width; i++) {
                uint64_t bits;
                memcpy(&bits, row + i, sizeof bits);
                outside |= bits | (ONE - bits);
                out[i] += row[i];
            }
    }
    return outside >> 63;
}

/* Whether the sizes fit and every piece lies inside the rows, so that `add` stays inside them. */
static int fits(const Py_buffer *rows, const Py_buffer *starts, const Py_buffer *stops,
                const Py_buffer *out, const Py_buffer *first, Py_ssize_t width)
{
    const Py_ssize_t size = sizeof(double), pieces = starts->len / (Py_ssize_t)sizeof(int64_t);
    if (width < 1 || width > PY_SSIZE_T_MAX / size || rows->len % (width * size) != 0)
        return 0;
    if (starts->len % (Py_ssize_t)sizeof(int64_t) != 0 || starts->len != stops->len)
        return 0;
    if (out->len % (width * size) != 0 || out->len / (width * size) != pieces)
        return 0;
    if (first->buf != NULL && first->len != width * size)
        return 0;
    const Py_buffer *all[] = {rows, starts, stops, out, first};
    for (int i = 0; i < 5; i++)
        if ((uintptr_t)all[i]->buf % sizeof(double) != 0)
            return 0;
    const int64_t count = rows->len / (width * size);
    for (Py_ssize_t i = 0; i < pieces; i++) {
        const int64_t start = ((int64_t *)starts->buf)[i], stop = ((int64_t *)stops->buf)[i];
        if (start < 0 || start > stop || stop > count)
            return 0;
    }
    return 1;
}

static PyObject *sum_rows(PyObject *self, PyObject *arguments)
{
    Py_buffer rows, starts, stops, out, first;
    Py_ssize_t width;
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*y*y*w*nz*", &rows, &starts, &stops, &out, &width, &first))
        return NULL;
    if (fits(&rows, &starts, &stops, &out, &first, width))
        result = PyBool_FromLong(!add(rows.buf, starts.buf, stops.buf,
                                      starts.len / (Py_ssize_t)sizeof(int64_t), width, first.buf,
                                      out.buf));
    else
        PyErr_SetString(PyExc_ValueError, "The sizes of the arrays do not fit together.");
    PyBuffer_Release(&rows);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&stops);
    PyBuffer_Release(&out);
    PyBuffer_Release(&first);
    return result;
}

static PyMethodDef methods[] = {
    {"sum_rows", sum_rows, METH_VARARGS,
     "Write the sums of rows[starts[i]:stops[i]] to out[i]; return whether all are in [0, 1]."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sums", NULL, 0, methods,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__sums(void)
{
    return PyModule_Create(&module);
}
